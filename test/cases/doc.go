// Package cases holds rules of the registry as texts: what stands in the
// clusters, step by step, and what the registry makes of it after each step. A
// case is one file in testdata, in the form of a txtar archive:
//
//	What the case is about.
//	-- discovery --
//	env=prod                  (selectors of namespaces, one a line; may be left out)
//	-- 1/hub/any.yaml --      (a file of manifests of cluster hub, from step 1 on)
//	-- 1/want --              (the registry after step 1)
//	-- 2/hub/any.yaml --      (in place of the former; an empty one deletes it)
//	-- 2/east/removed --      (cluster east is removed)
//	-- 2/want --
//
// The cluster hub is the config cluster. go test ./test/cases -update writes
// what the registry makes of it; read what changed before you believe it.
package cases
