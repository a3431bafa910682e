// Package browser tests the page at / in a real Chromium, with a real server
// behind it. It has tests only, and runs in a network of its own: what the page
// would load from elsewhere it could not.
package browser
