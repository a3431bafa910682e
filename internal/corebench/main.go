package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func main() {
	var o options
	sizes := flag.String("sizes", "10000,100000,1000000", "endpoints, in multiples of 10000")
	names := flag.String("shapes", "unique,shared", "which fleets")
	flag.IntVar(&o.runs, "runs", 7, "runs of each kind of change; the median counts")
	flag.IntVar(&o.rounds, "rounds", 2000, "changes in a run")
	flag.StringVar(&o.only, "only", "", "measure this kind of change alone: "+kinds())
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of the changes; for one shape and size")
	flag.StringVar(&o.mem, "memprofile", "", "write a heap profile after load; for one shape and size")
	child := flag.String("child", "", "measure this core in this process and print JSON")
	flag.Parse()
	if err := start(*sizes, *names, *child, o); err != nil {
		fmt.Fprintln(os.Stderr, "corebench:", err)
		os.Exit(1)
	}
}

func start(sizes, names, child string, o options) error {
	var numbers []int
	for s := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n <= 0 || n%10000 != 0 {
			return fmt.Errorf("-sizes: %q is not a multiple of 10000", s)
		}
		numbers = append(numbers, n)
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("-shapes: there is no %q", name)
		}
		if child != "" {
			r, err := run(shapes[i], numbers[0], child, o)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		}
		if err := compare(shapes[i], numbers); err != nil {
			return err
		}
	}
	return nil
}

// compare runs every size and core of a shape in processes of their own, one
// after the other, and prints what they found.
func compare(s shape, sizes []int) error {
	var results []result
	for _, which := range []string{"core", "rows"} {
		for _, size := range sizes {
			fmt.Fprintf(os.Stderr, "measuring %s, %s, %d endpoints\n", s.name, which, size)
			r, err := inProcess(s.name, size, which)
			if err != nil {
				return fmt.Errorf("%s, %s, %d endpoints: %w", s.name, which, size, err)
			}
			results = append(results, r)
		}
	}
	print(s, results)
	return nil
}

// inProcess runs this program again as a child, with the flags it was given.
func inProcess(shape string, size int, which string) (r result, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	var args []string
	flag.Visit(func(f *flag.Flag) { args = append(args, "-"+f.Name+"="+f.Value.String()) })
	args = append(args, "-shapes="+shape, "-sizes="+strconv.Itoa(size), "-child="+which)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}
