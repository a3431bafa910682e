// Package netns gives a test binary, or a program, a network of its own: it
// runs itself again in new network, process and mount namespaces, where only
// the loopback interface exists and any address can be added to it. Endpoints
// of several clusters, which Kubernetes forbids on loopback addresses, are then
// real listeners on addresses that reach no machine.
//
// It never touches the network of the machine, never skips a test, and leaves
// nothing behind: the kernel ends every process inside when the outer one ends,
// whatever way. There is no route out and no name service inside: fetch parts
// before entering.
//
// TestMain functions call Main; programs, and TestMain functions that do more,
// call Enter. AddAddress may be called from any goroutine.
//
// There are three processes. The outer one waits, passes signals on and ends
// with the exit code of the inner. The second is process 1 inside: it sets the
// namespaces up and reaps what is orphaned. The inner one, its child, goes on
// with the tests. All three run the code before Enter.
package netns
