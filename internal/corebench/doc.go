// Command corebench measures the core at 10,000, 100,000 and 1,000,000
// endpoints: how much memory it holds, what the garbage collector makes of it,
// and what one change costs in the time of its goroutine. "make bench" runs it.
//
// It drives what the server drives: the Aggregator with a Kubernetes registry
// for each cluster and the published view as its sink, with batches as small as
// a watch makes them. Beside it runs the least that any core must hold, the bare
// rows in plain maps, so that the difference is what the joins, the indexes and
// the view cost.
//
// Two fleets are measured. In "unique" each pod has eight labels of which two
// are its own, and one service has 10,000 endpoints; in "shared" pods have six
// labels and 120,000 label sets serve 200,000 pods. Each fleet, size and core
// runs in a process of its own, which the command starts, as what one leaves
// behind would slow the next.
//
// How it measures:
//   - Time is the CPU time of the thread that runs the core, so that what else
//     the machine does, and the collector's own threads, stay out of it. Batches
//     are made before the clock starts, in small chunks.
//   - Strings of a batch are always new ones, as decoding makes them: the core
//     can never compare them by their pointers.
//   - Memory is what is left after two collections, less what was there before
//     the first batch; the generator keeps a few bits a row.
//   - The collector's share is computed from what a change allocates, how large
//     the heap is and what one cycle over it takes, as the cycles of a short run
//     would be those of the generator.
package main
