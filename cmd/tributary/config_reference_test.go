package main

import (
	"reflect"
	"strings"
	"testing"
)

// settings calls f with every field of a configuration, and of what its lists
// hold.
func settings(t reflect.Type, f func(owner reflect.Type, field reflect.StructField)) {
	for i := range t.NumField() {
		field := t.Field(i)
		f(t, field)
		inner := field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			settings(inner, f)
		}
	}
}

// Every setting is documented, in whole sentences, and has a name of its own in
// the file.
func TestEverySettingIsDocumented(t *testing.T) {
	d, err := configDocs()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tributary(t, "config", "reference")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	settings(reflect.TypeFor[Config](), func(owner reflect.Type, f reflect.StructField) {
		n++
		text := d.of(owner, f)
		if len(strings.Fields(text)) < 3 || !strings.HasSuffix(text, ".") {
			t.Errorf("%s.%s is documented as %q", owner.Name(), f.Name, text)
		}
		name := yamlName(f)
		if name == "" || name != strings.ToLower(name[:1])+name[1:] {
			t.Errorf("%s.%s is called %q in the file", owner.Name(), f.Name, name)
		}
		if !strings.Contains(out, name+":") {
			t.Errorf("%s is not in the reference", name)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains(out, line) && !strings.Contains(out, strings.ReplaceAll(text, "\n", " ")) {
				t.Errorf("the reference does not say of %s: %s", name, line)
			}
		}
	})
	if n < 20 {
		t.Errorf("only %d settings were looked at", n)
	}
}

// What is printed is the configuration: read back it is the same.
func TestReferenceLoadsBack(t *testing.T) {
	for _, command := range [][]string{{"config", "reference"}, {"config"}} {
		out, err := tributary(t, command...)
		if err != nil {
			t.Fatal(err)
		}
		var c Config
		if err := readConfig(writeFile(t, t.TempDir(), "config.yaml", out), &c); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		want := defaultConfig()
		// An empty list and none are the same.
		if len(c.DiscoverySelectors) == 0 {
			c.DiscoverySelectors = nil
		}
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%v: read back it is %+v, want %+v", command, c, want)
		}
	}
}

// The printed lines fit a terminal.
func TestReferenceWidth(t *testing.T) {
	out, err := tributary(t, "config", "reference")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(out, "\n") {
		if len(line) > 120 {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
}
