// Package fakeapi answers lists and watches as a Kubernetes API server does,
// from memory and without a network, so that clients of it work in the bubble of
// testing/synctest and can be told any lie that a real server may tell once in a
// year: expired versions, refused credentials, watches that break.
//
// It checks nothing, stores nothing on writes, and is no proof that something
// works with a real API server; that is what package lab is for. Only tests call
// it. All of it may be used from any goroutine.
package fakeapi
