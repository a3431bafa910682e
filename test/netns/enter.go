package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// roleVariable tells a process which of the three it is; the outer one has
// none.
const roleVariable = "TRIBUTARY_NETNS"

const (
	roleInit  = "init"
	roleInner = "inner"
)

// Main runs the tests of a package in namespaces of their own, with the given
// addresses, and does not return. It is all that a TestMain needs.
func Main(m *testing.M, addresses ...string) {
	Enter(addresses...)
	os.Exit(m.Run())
}

// Enter returns inside, in namespaces that have the given addresses on their
// loopback interface. Outside it does not return: it ends when the process
// inside does, with the same exit code. Without root, or where the kernel
// refuses, it ends the process with a message and exit code 1.
func Enter(addresses ...string) {
	switch role := os.Getenv(roleVariable); role {
	case roleInner:
		return
	case roleInit:
		os.Exit(beInit(addresses))
	case "":
		os.Exit(beOuter())
	default:
		fail(fmt.Errorf("%s=%q means nothing", roleVariable, role))
	}
}

// Inside reports whether this process runs in namespaces that Enter made.
func Inside() bool { return os.Getenv(roleVariable) == roleInner }

// fail reports what keeps the tests from running, and ends the process.
func fail(err error) {
	fmt.Fprintf(os.Stderr, "netns: %v\n", err)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		fmt.Fprintln(os.Stderr, "netns: tests that carry traffic need root and a kernel that lets them make network, process and mount namespaces")
	}
	os.Exit(1)
}

// again prepares this program to run once more, in another role: the same
// binary even if its file is gone, the same arguments and streams.
func again(role string, flags uintptr) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// beOuter starts process 1 of new namespaces and returns its exit code.
func beOuter() int {
	runtime.LockOSThread() // the death signal comes from this thread
	cmd := again(roleInit, unix.CLONE_NEWNET|unix.CLONE_NEWPID|unix.CLONE_NEWNS)
	signals := takeSignals()
	if err := cmd.Start(); err != nil {
		fail(fmt.Errorf("entering new namespaces: %w", err))
	}
	defer passSignals(signals, cmd.Process)()
	_ = cmd.Wait() // the exit code tells all
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// beInit sets the namespaces up, starts the inner process in them, and reaps
// children, its own and orphans, until the inner one has ended. Its own end
// then ends all that still runs.
func beInit(addresses []string) int {
	runtime.LockOSThread()
	if os.Getpid() != 1 {
		fail(fmt.Errorf("%s=%s outside of new namespaces", roleVariable, roleInit))
	}
	if err := setUp(addresses); err != nil {
		fail(fmt.Errorf("setting up the namespaces: %w", err))
	}
	cmd := again(roleInner, 0)
	signals := takeSignals()
	if err := cmd.Start(); err != nil {
		fail(fmt.Errorf("running inside: %w", err))
	}
	defer passSignals(signals, cmd.Process)()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fail(fmt.Errorf("waiting for the process inside: %w", err))
		case pid == cmd.Process.Pid:
			return exitCode(status)
		}
	}
}

// setUp makes the mounts private, mounts the /proc of the new processes, and
// brings the loopback interface up.
func setUp(addresses []string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	for _, a := range addresses {
		if err := AddAddress(a); err != nil {
			return err
		}
	}
	return nil
}

// takeSignals catches the signals by which go test, or a person, ends a test run.
// It comes before the next process is started: that one may be asked for its end,
// by way of us, as soon as it runs.
func takeSignals() chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	return signals
}

// passSignals passes signals on, so that the tests are the ones to end, or to
// print their goroutines.
func passSignals(signals chan os.Signal, to *os.Process) (stop func()) {
	go func() {
		for s := range signals {
			_ = to.Signal(s)
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

// exitCode is the code for our own end after that of a child: as a shell says
// it if a signal ended the child.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
