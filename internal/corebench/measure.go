package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// memory is what the process holds.
type memory struct {
	Heap    int64 // bytes of reachable objects
	Objects int64
	RSS     int64 // with what is free given back to the system
}

// settled returns the memory that is left once all garbage is gone.
func settled() memory {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.FreeOSMemory()
	return memory{Heap: int64(m.HeapAlloc), Objects: int64(m.HeapObjects), RSS: status("VmRSS")}
}

func (m memory) sub(o memory) memory {
	return memory{m.Heap - o.Heap, m.Objects - o.Objects, m.RSS - o.RSS}
}

// status returns a line of /proc/self/status in bytes.
func status(field string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// resetPeak makes VmHWM start again from what is resident now.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// cycle returns the CPU time of one collection of what is there now. The
// runtime's own figures are of wall time, so the clock of the process counts.
func cycle() time.Duration {
	const n = 5
	before := processTime()
	for range n {
		runtime.GC()
	}
	return (processTime() - before) / n
}

func cycles() int64 {
	s := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// threadTime returns the CPU time of this thread, processTime that of all.
func threadTime() time.Duration  { return cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) }
func processTime() time.Duration { return cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
