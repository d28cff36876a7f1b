// The command prepare makes a copy of yunikorn-core whose queues ask queuegate.
//
//	go run ./prepare [-core VERSION] DIRECTORY [MODULE...]
//
// It copies the module, unchanged, from Go's module cache into DIRECTORY, and writes two files beside the copy. With go.work Go builds the copy instead of the
// module; with overlay.json it reads the rewritten and added files in place of the copy's own:
//
//	GOWORK=DIRECTORY/go.work go build -overlay DIRECTORY/overlay.json ./scheduler
//
// Each MODULE is the folder of a module that is to be built with the copy, such as a shim.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	core           = "github.com/apache/yunikorn-core"
	interfaces     = "github.com/apache/yunikorn-scheduler-interface"
	defaultVersion = "v1.9.0"
)

// interfaceOf has the version of the scheduler interface for each version of yunikorn-core that this
// program knows. Both modules require what came before a release of the interface.
var interfaceOf = map[string]string{defaultVersion: "v1.9.0", "v1.8.0": "v1.8.0"}

func main() {
	version := flag.String("core", defaultVersion, "the `version` of yunikorn-core")
	suites := flag.Bool("suites", false,
		"only for the tests of yunikorn-core: replace queuegate's policy by the ACLs of the queue that is asked about")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./prepare [-core VERSION] [-suites] DIRECTORY [MODULE...]")
		os.Exit(2)
	}
	added := []string{"_added"}
	if *suites {
		added = append(added, "_added_for_suites")
	}
	if err := prepare(*version, flag.Arg(0), added, flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

// prepare fills the directory. Of added files with the same path, that of the last folder counts.
// It runs in the folder of this module's go.mod.
func prepare(version, directory string, added, modules []string) error {
	if interfaceOf[version] == "" {
		known := slices.Sorted(maps.Keys(interfaceOf))
		return fmt.Errorf("yunikorn-core %s is not supported; supported are %s", version, strings.Join(known, ", "))
	}
	directory, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	module, err := fetch(version)
	if err != nil {
		return err
	}
	fetched := filepath.Join(directory, "yunikorn-core")
	_, noOverlay := os.Stat(filepath.Join(directory, "overlay.json"))
	if _, err := os.Stat(fetched); err == nil && noOverlay != nil {
		return fmt.Errorf("%s was not made by this program: remove it, or name another directory", fetched)
	}
	if err := os.RemoveAll(fetched); err != nil {
		return err
	}
	if err := os.CopyFS(fetched, os.DirFS(module)); err != nil {
		return err
	}
	overlay := map[string]string{}
	for _, file := range files {
		source := filepath.Join(fetched, file.path)
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		text, err = file.rewrite(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		overlay[source] = filepath.Join(directory, "rewritten", file.path)
		if err := write(overlay[source], text); err != nil {
			return err
		}
	}
	for _, folder := range added {
		if err := addFiles(overlay, folder, fetched); err != nil {
			return err
		}
	}
	return writeSettings(version, directory, overlay, append(modules, "."))
}

// fetch downloads the module, unless Go has it, and returns its folder in the module cache.
func fetch(version string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", core+"@"+version)
	command.Env = append(os.Environ(), "GOWORK=off")
	command.Stderr = os.Stderr
	output, err := command.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(output, &module) == nil && module.Error != "" {
		return "", errors.New(module.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", core, version, err)
	}
	return module.Dir, nil
}

// addFiles puts the files of a folder at the same places of the copy.
func addFiles(overlay map[string]string, folder, fetched string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		place, err := filepath.Rel(folder, path)
		overlay[filepath.Join(fetched, place)] = path
		return err
	})
}

func writeSettings(version, directory string, overlay map[string]string, modules []string) error {
	text, err := json.MarshalIndent(map[string]any{"Replace": overlay}, "", "  ")
	if err != nil {
		return err
	}
	if err := write(filepath.Join(directory, "overlay.json"), append(text, '\n')); err != nil {
		return err
	}
	workspace := fmt.Sprintf("go 1.25.0\n\nreplace %s => ./yunikorn-core\nreplace %s => %s %s\n\n",
		core, interfaces, interfaces, interfaceOf[version])
	for _, module := range modules {
		path, err := filepath.Abs(module)
		if err != nil {
			return err
		}
		workspace += fmt.Sprintf("use %q\n", path)
	}
	return write(filepath.Join(directory, "go.work"), []byte(workspace))
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
