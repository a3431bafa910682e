package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"tributary/model"
)

// result is what one process found out.
type result struct {
	Shape string
	Size  int
	Core  string

	Loaded   memory // after load, less what was there before
	LoadPeak int64  // resident at most while loading
	LoadCPU  time.Duration
	After    memory // after all changes, less what was there before
	RunPeak  int64  // resident at most during the changes
	Cycle    time.Duration
	Added    memory // of each added cluster; zero if none was

	Changes []measured
}

// measured is one kind of change.
type measured struct {
	Name   string
	Time   time.Duration // median of the runs
	Low    time.Duration
	High   time.Duration
	Bytes  int64         // allocated
	GC     time.Duration // what collecting those bytes costs in the long run
	Cycles int64         // of the collector during the runs, with those for the generator
	Others float64       // the share of threads other than the core's in the CPU time meanwhile
}

// chunk is how many batches are made before the clock starts: few enough for
// the caches to keep what was made, as they would what was just decoded.
const chunk = 32

type options struct {
	runs, rounds    int
	cpuProfile, mem string
	only            string
}

// run measures one core under one shape and size.
func run(s shape, size int, which string, o options) (result, error) {
	runtime.LockOSThread()
	r := result{Shape: s.name, Size: size, Core: which}
	f := newFleet(s, size)
	var c core = newRows()
	if which == "core" {
		c = newWhole("east")
	}
	before := settled()
	resetPeak()
	start := threadTime()
	f.load(c)
	r.LoadCPU = threadTime() - start
	r.LoadPeak = status("VmHWM")
	r.Loaded = settled().sub(before)
	r.Cycle = cycle()
	want := f.slices() + f.big
	if err := c.check(want, want*perSlice); err != nil {
		return r, err
	}
	writeHeap(o.mem)
	resetPeak()
	if o.cpuProfile != "" {
		file, err := os.Create(o.cpuProfile)
		if err != nil {
			return r, err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return r, err
		}
	}
	for _, ch := range changes {
		if ch.trait&big != 0 && s.big == 0 || which != "core" && ch.trait&bare == 0 || o.only != "" && o.only != ch.short {
			continue
		}
		m := measure(f, c, ch, o)
		m.GC = time.Duration(float64(m.Bytes) / float64(max(r.Loaded.Heap, 4<<20)) * float64(r.Cycle))
		r.Changes = append(r.Changes, m)
	}
	if o.cpuProfile != "" {
		pprof.StopCPUProfile()
	}
	c.wait(time.Second)
	c.round(nil)
	if err := c.check(want, want*perSlice); err != nil {
		return r, fmt.Errorf("after the changes: %w", err)
	}
	r.RunPeak = status("VmHWM")
	at := settled()
	r.After = at.sub(before)
	if which == "core" && o.only == "" {
		const clusters = 10
		for range clusters {
			f.add(c)
		}
		d := settled().sub(at)
		r.Added = memory{d.Heap / clusters, d.Objects / clusters, d.RSS / clusters}
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(c)
	return r, nil
}

// measure makes the changes of one kind, in rounds of one batch of one row.
func measure(f *fleet, c core, ch change, o options) measured {
	if w, ok := c.(*whole); ok {
		w.render = ch.trait&rendered != 0
	}
	slots := make([]slot, chunk)
	var times []time.Duration
	var bytes uint64
	m := measured{Name: ch.name}
	cyclesBefore, all, own := cycles(), processTime(), threadTime()
	changed := 0
	for run := range o.runs + 1 {
		var spent time.Duration
		n := 0
		for ; n < o.rounds; n += chunk {
			for i := range slots {
				ch.make(f, &slots[i])
				slots[i].batch.Epoch = 1
			}
			allocs, start := allocated(), threadTime()
			for i := range slots {
				c.wait(time.Millisecond)
				c.round([]model.Batch{slots[i].batch})
			}
			spent += threadTime() - start
			bytes += allocated() - allocs
		}
		if run == 0 {
			bytes = 0 // warms up
			continue
		}
		changed += n
		times = append(times, spent/time.Duration(n))
	}
	all, own = processTime()-all, threadTime()-own
	m.Cycles, m.Others = cycles()-cyclesBefore, 1-float64(own)/float64(all)
	slices.SortFunc(times, cmp.Compare)
	m.Time, m.Low, m.High = times[len(times)/2], times[0], times[len(times)-1]
	m.Bytes = int64(bytes) / int64(changed)
	// What is held for a moment is settled before the next kind.
	c.wait(time.Second)
	c.round(nil)
	return m
}

func writeHeap(name string) {
	if name == "" {
		return
	}
	if file, err := os.Create(name); err == nil {
		_ = pprof.WriteHeapProfile(file)
		_ = file.Close()
	}
}
