// Command modzip writes this module as a Go module proxy serves it: OUT/cache/download/PATH/@v/VERSION.{info,mod,zip}.
// It runs in the root of the module and is no part of the result.
package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// released is the time of every entry, so that the same sources give the same bytes.
var released = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// left out: what only the source tree needs.
var leftOut = map[string]bool{"internal": true, "check": true, "package": true}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: modzip OUT VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "modzip:", err)
		os.Exit(1)
	}
}

func write(out, version string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	module := strings.TrimPrefix(first, "module ")
	dir := filepath.Join(out, "cache", "download", filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": released})
	if err != nil {
		return err
	}
	at := filepath.Join(dir, version)
	for name, content := range map[string][]byte{
		filepath.Join(dir, "list"): []byte(version + "\n"),
		at + ".info":               info,
		at + ".mod":                mod,
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(at + ".zip")
	if err != nil {
		return err
	}
	if err := writeZip(file, module+"@"+version+"/"); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func writeZip(file *os.File, prefix string) error {
	archive := zip.NewWriter(file)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case leftOut[path] && entry.IsDir():
			return filepath.SkipDir
		case leftOut[path] || entry.IsDir():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: prefix + filepath.ToSlash(path), Method: zip.Deflate, Modified: released}
		into, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = into.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
