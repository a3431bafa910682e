// Package dataset fills the API servers of a lab with services, and changes
// their endpoints one at a time: the input that control planes are measured
// with.
//
// Every service is in every cluster under the same name, so that its endpoints
// of all clusters are one assignment. EndpointSlices are written as a controller
// would write them, without one. The same Shape always makes the same objects,
// and Restore brings them back after changes.
//
// The package never talks to a control plane. Replace may be called from any
// goroutine, but for a service and cluster only from one at a time; the other
// methods must not run at the same time as it.
package dataset
