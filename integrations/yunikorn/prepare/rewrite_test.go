package main

import (
	"strings"
	"testing"
)

var example = file{"example.go", []edit{
	{"func Check() bool {", 1, "func unusedCheck() bool {"},
	{"if !Check() {\n", 2, "if ok, err := Ask(); err != nil {\nreturn err\n} else if !ok {\n"},
}}

const source = `package example

// Check keeps its comment.
func Check() bool {
	return true // and this one
}

func Place() error {
	if !Check() {
		return nil
	}
	for {
		if !Check() {
			return nil
		}
	}
}
`

func TestRewrite(t *testing.T) {
	got, err := example.rewrite(source)
	if err != nil {
		t.Fatal(err)
	}
	want := `package example

// Check keeps its comment.
func unusedCheck() bool {
	return true // and this one
}

func Place() error {
	if ok, err := Ask(); err != nil {
		return err
	} else if !ok {
		return nil
	}
	for {
		if ok, err := Ask(); err != nil {
			return err
		} else if !ok {
			return nil
		}
	}
}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	for _, changed := range []string{
		strings.Replace(source, "func Check() bool", "func Check() (bool, error)", 1),
		strings.Replace(source, "if !Check()", "if !Check(user)", 1),
		source + "\nfunc Again() {\n\tif !Check() {\n\t}\n}\n",
	} {
		_, err := example.rewrite(changed)
		if err == nil || !strings.Contains(err.Error(), "this version of yunikorn-core is not supported") {
			t.Errorf("%v for\n%s", err, changed)
		}
	}
}
