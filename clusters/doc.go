// Package clusters knows which clusters there are and keeps one source running
// for each: the config cluster, the clusters of remote secrets and of kubeconfig
// files, and the directories of a fleet.
//
// It decides nothing about what is inside a cluster and never reads a Service.
// A source is run through the Runner interface; who implements it is not known
// here. Kubeconfigs from secrets and files are taken for hostile: what could run
// a program, read a file or send a credential elsewhere is refused
// (kubeconfig.go). A cluster that is no longer wanted leaves in steps (drain.go).
// Whether one is alive is judged by probes and by what its watches bring
// (liveness.go, probe.go).
//
// cmd makes one Manager and runs it. The core takes the batches of all sources
// through one function and tells the Manager when an epoch is complete. Debug
// pages and readiness read List and Ready.
//
// Concurrency: one goroutine (Manager.Run) owns the membership. Whatever
// happens elsewhere is written into an inbox and wakes it: nothing is queued,
// it looks at the whole of it. One goroutine for each epoch of a cluster runs
// its source and one asks its API server whether it is there, one for each step
// of a drain hands it over, and one for each removal waits for the end of sources
// and then takes their rows back. All have ended when Run returns. List, Ready, Synced and the metrics may be called from
// anywhere and never wait; WaitReady waits.
package clusters
