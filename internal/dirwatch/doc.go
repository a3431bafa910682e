// Package dirwatch tells when the entries of one directory may have changed,
// once things have settled.
//
// It never reads the entries and never looks into subdirectories. Whoever
// follows a directory of files calls it: the manifests of a fleet, and the fleet
// itself.
//
// Concurrency: Watch runs on the caller's goroutine and calls back on it; the
// only other goroutine is that of fsnotify, which has ended when Watch returns.
package dirwatch
