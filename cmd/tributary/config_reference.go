package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// configSource is where the settings are declared and documented: the reference
// is made from it, so that it cannot say something else.
//
//go:embed config.go
var configSource string

// docs are the comments of the settings: by type and field, and of types alone.
type docs map[string]string

func configDocs() (docs, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", configSource, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the documentation of settings: %w", err)
	}
	d := docs{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			d[t.Name.Name] = strings.TrimSpace(group.Doc.Text())
			if s, ok := t.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						d[t.Name.Name+"."+name.Name] = strings.TrimSpace(f.Doc.Text())
					}
				}
			}
		}
	}
	return d, nil
}

// of returns what is said of a field, in the words of the file: fields under the
// names that they have there.
func (d docs) of(owner reflect.Type, f reflect.StructField) string {
	text := d[owner.Name()+"."+f.Name]
	t := f.Type
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if text == "" {
		text = strings.Replace(d[t.Name()], t.Name(), yamlName(f), 1) // a section
	}
	for i := range owner.NumField() {
		o := owner.Field(i)
		if strings.ToUpper(o.Name) != o.Name {
			text = regexp.MustCompile(`\b`+o.Name+`\b`).ReplaceAllString(text, yamlName(o))
		}
	}
	return text
}

func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// typeName tells what a setting takes.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return "duration"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return "list"
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case t.Kind() == reflect.Map:
		return "map of " + typeName(t.Elem()) + "s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "number"
	}
	return t.Kind().String()
}

// writeReference writes every setting with its documentation, its type and the
// value it has in c. What it writes can be given to --config.
func writeReference(w io.Writer, c Config) error {
	d, err := configDocs()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Every setting of Tributary with its default. A file needs only what differs;\n# an unknown setting is an error. Flags win over the file.\n")
	if err := reference(&b, d, reflect.ValueOf(c), ""); err != nil {
		return err
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func reference(b *strings.Builder, d docs, v reflect.Value, indent string) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		b.WriteByte('\n')
		text := d.of(v.Type(), f)
		if f.Type.Kind() != reflect.Struct {
			text += " (" + typeName(f.Type) + ")"
		}
		comment(b, indent, text)
		if f.Type.Kind() == reflect.Struct {
			fmt.Fprintf(b, "%s%s:\n", indent, yamlName(f))
			if err := reference(b, d, v.Field(i), indent+"  "); err != nil {
				return err
			}
			continue
		}
		if t := f.Type; t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
			elements(b, d, t.Elem(), indent+"#   ", "- ")
		}
		value, err := yaml.Marshal(v.Field(i).Interface())
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Name, err)
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, yamlName(f), strings.TrimSpace(string(value)))
	}
	return nil
}

// elements documents what the elements of a list have, as comments.
func elements(b *strings.Builder, d docs, t reflect.Type, indent, dash string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if i > 0 {
			dash = "  "
		}
		fmt.Fprintf(b, "%s%s%s: (%s) %s\n", indent, dash, yamlName(f), typeName(f.Type), strings.ReplaceAll(d.of(t, f), "\n", " "))
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			elements(b, d, f.Type.Elem(), indent+"    ", "- ")
		}
	}
}

func comment(b *strings.Builder, indent, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight(indent+"# "+line, " ") + "\n")
	}
}

func configReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print every setting with its default and what it does, as a file that can be given to --config",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return writeReference(cmd.OutOrStdout(), defaultConfig()) },
	}
}
