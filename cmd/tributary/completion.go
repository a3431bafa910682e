package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tributary/debug"
)

// Bounds of what a shell is offered, and how long it waits for it.
const (
	completionLimit = "200"
	completionTime  = 2 * time.Second
)

// names are what a shell offers: a word, and what it stands for.
type names func(ctx context.Context, o *getOptions, word string) ([]cobra.Completion, error)

// completeArgs offers names that the running server knows. Without one, nothing
// is offered: a shell that completes is no place for an error.
func completeArgs(o *getOptions, from names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		found, err := from(ctx, o, word)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := found[:0]
		for _, c := range found {
			name, _, _ := strings.Cut(c, "\t")
			used := false
			for _, a := range args {
				used = used || a == name
			}
			if strings.HasPrefix(name, word) && !used {
				list = append(list, c)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func completeFrom(cmd *cobra.Command, o *getOptions, flag string, from names) {
	// It fails only for a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc(flag, completeArgs(o, from)); err != nil {
		panic(err)
	}
}

// safe are the characters that no shell takes for anything else.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/"

// offer makes a completion of a name; "" if the name is none that a shell could
// be given safely.
func offer(name, about string) cobra.Completion {
	if strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(safe, r) }) {
		return ""
	}
	return cobra.CompletionWithDesc(name, printable(about))
}

func collect[T any](ctx context.Context, o *getOptions, path string, of func(T) cobra.Completion) ([]cobra.Completion, error) {
	var list debug.List[T]
	if err := getPage(ctx, o.address, path, &list); err != nil {
		return nil, err
	}
	seen := map[string]bool{"": true}
	var out []cobra.Completion
	for _, item := range list.Items {
		c := of(item)
		if name, _, _ := strings.Cut(c, "\t"); !seen[name] {
			seen[name] = true
			out = append(out, c)
		}
	}
	return out, nil
}

func clusterNames(ctx context.Context, o *getOptions, _ string) ([]cobra.Completion, error) {
	return collect(ctx, o, "/api/v1/clusters", func(c debug.Cluster) cobra.Completion { return offer(c.ID, c.State) })
}

// serviceNames offers NAME.NAMESPACE, and whole hosts once a word is longer than
// that.
func serviceNames(ctx context.Context, o *getOptions, word string) ([]cobra.Completion, error) {
	query := url.Values{"limit": {completionLimit}, "q": {firstLabel(word)}}
	if o.namespace != "" {
		query.Set("namespace", o.namespace)
	}
	return collect(ctx, o, "/api/v1/services?"+query.Encode(), func(v debug.Service) cobra.Completion {
		name := v.Name + "." + v.Namespace
		if !strings.HasPrefix(v.Host, name+".") || !strings.HasPrefix(name, word) {
			name = v.Host
		}
		return offer(name, fmt.Sprintf("%d of %d served", v.Served, v.Endpoints))
	})
}

// firstLabel returns a word up to its first dot: what comes after is told apart
// here, as names are written shorter than hosts.
func firstLabel(word string) string {
	first, _, _ := strings.Cut(word, ".")
	return first
}

func namespaceNames(ctx context.Context, o *getOptions, word string) ([]cobra.Completion, error) {
	query := url.Values{"limit": {"2000"}, "q": {word}}
	return collect(ctx, o, "/api/v1/services?"+query.Encode(), func(v debug.Service) cobra.Completion { return offer(v.Namespace, "") })
}

func proxyNames(ctx context.Context, o *getOptions, _ string) ([]cobra.Completion, error) {
	return collect(ctx, o, "/api/v1/proxies?limit="+completionLimit, func(p debug.Proxy) cobra.Completion {
		if parts := strings.Split(p.ID, "~"); len(parts) == 4 {
			return offer(parts[2], p.State)
		}
		return offer(p.ID, p.State)
	})
}

// completeWithoutPackage gives the script for bash what it takes from the package
// bash-completion, for machines and containers that do not have it.
func completeWithoutPackage(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	scripts := map[string]func(w io.Writer, described bool) error{
		"bash": func(w io.Writer, described bool) error {
			if err := root.GenBashCompletionV2(w, described); err != nil {
				return err
			}
			_, err := io.WriteString(w, bashWords)
			return err
		},
		"zsh": func(w io.Writer, described bool) error {
			if described {
				return root.GenZshCompletion(w)
			}
			return root.GenZshCompletionNoDesc(w)
		},
		"fish": func(w io.Writer, described bool) error { return root.GenFishCompletion(w, described) },
		"powershell": func(w io.Writer, described bool) error {
			if described {
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return root.GenPowerShellCompletion(w)
		},
	}
	for shell, script := range scripts { // all of them: cobra's own write to the output that was set when they were made
		cmd, _, err := root.Find([]string{"completion", shell})
		if err != nil {
			panic(err)
		}
		cmd.Long = strings.Replace(cmd.Long, "This script depends on the 'bash-completion' package.\nIf it is not installed already, you can install it via your OS's package manager.\n",
			"The package bash-completion is used where it is installed, and is not needed.\n", 1)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			plain, err := cmd.Flags().GetBool("no-descriptions")
			if err != nil {
				return err
			}
			return script(cmd.OutOrStdout(), !plain)
		}
	}
}

// bashWords replaces cobra's function of that name, which needs a function of the
// package. It splits the line at blanks only, as names have colons.
const bashWords = `
__tributary_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
}
`
