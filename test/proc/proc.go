package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"tributary/test/tb"
)

// Options says what to run.
type Options struct {
	// Name is for messages; the base name of Path if empty.
	Name string
	// Path is the program.
	Path string
	// Args are its arguments, without its name.
	Args []string
	// Env is added to our environment.
	Env []string
	// Dir is its working directory; ours if empty.
	Dir string
	// LogFile gets its standard output and error, appended.
	LogFile string
}

// Process is a program that was started.
type Process struct {
	name, logFile string
	cmd           *exec.Cmd
	done          chan struct{} // closed when it is gone
	err           error         // how it ended; read after done
}

// Start starts a program and returns at once.
func Start(o Options) (*Process, error) {
	if o.Name == "" {
		o.Name = filepath.Base(o.Path)
	}
	log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: log: %w", o.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Dir = o.Dir
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &Process{name: o.Name, logFile: o.LogFile, cmd: cmd, done: make(chan struct{})}

	started := make(chan error)
	go func() {
		// The parent-death signal comes when the thread that started the
		// process ends, so that thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if p.err = cmd.Wait(); p.err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Name, err)
	}
	return p, nil
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended, also with status 0; nil while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// ExitCode returns the exit code: -1 while it runs, or when a signal ended it.
func (p *Process) ExitCode() int {
	if p.Err() == nil {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ready waits until check returns nil. It fails as Until does. While it takes
// long, a line goes to progress now and then, if that is not nil.
func (p *Process) Ready(ctx context.Context, progress func(string), check func(context.Context) error) error {
	begin := time.Now()
	next := begin.Add(5 * time.Second)
	err := p.Until(ctx, func(ctx context.Context) error {
		err := check(ctx)
		if now := time.Now(); err != nil && progress != nil && now.After(next) {
			progress(fmt.Sprintf("waiting for %s, %v: %v", p.name, now.Sub(begin).Round(time.Second), err))
			next = now.Add(5 * time.Second)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s did not become ready: %w", p.name, err)
	}
	return nil
}

// Until waits until cond returns nil. It fails as soon as the process ends,
// and when ctx does; the error then holds the end of the process's log.
func (p *Process) Until(ctx context.Context, cond func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := tb.Until(ctx, func(ctx context.Context) error {
		if err := p.Err(); err != nil {
			cancel(fmt.Errorf("it ended: %w", err))
			return err
		}
		return cond(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w\nthe log of %s ends:\n%s", err, p.name, p.Tail(20))
	}
	return nil
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("sending %v to %s: %w", sig, p.name, err)
	}
	return nil
}

// Pause stops the process in its tracks (SIGSTOP) and returns when all its
// threads stand: its connections stay open and nobody answers.
func (p *Process) Pause() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := tb.Until(ctx, p.stands); err != nil {
		return fmt.Errorf("pausing %s: %w", p.name, err)
	}
	return nil
}

// stands is the condition that no thread of the process runs.
func (p *Process) stands(context.Context) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("it has no threads: %w", errors.Join(err, p.Err()))
	}
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		if err != nil {
			continue // a thread that has ended
		}
		// "PID (NAME) STATE ...", where a name may hold anything.
		if state := string(b[strings.LastIndex(string(b), ")")+1:]); !strings.HasPrefix(state, " T") {
			return errors.New("a thread still runs")
		}
	}
	return nil
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop asks the process to end (SIGTERM) and returns when it is gone. After
// grace it is killed, which is an error.
func (p *Process) Stop(grace time.Duration) error {
	if p.Err() != nil {
		return nil
	}
	// A paused process would take the signal only when it goes on.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("stopping %s: not gone after %v, killed\nits log ends:\n%s", p.name, grace, p.Tail(20))
	}
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Log returns all that the process wrote.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.logFile)
	if err != nil {
		return fmt.Sprintf("(log of %s: %v)", p.name, err)
	}
	return string(b)
}

// Tail returns the last n lines of the log.
func (p *Process) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
