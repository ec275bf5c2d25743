package leafd

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// systemSocket is the socket of a daemon that runs as a system service.
const systemSocket = "/run/leafd/leafd.sock"

// DefaultSocketPath is where a client looks for the daemon that was given no path. The first rule that applies
// wins:
//
//  1. $LEAFD_SOCKET, if it is set and not empty;
//  2. for users other than root, $XDG_RUNTIME_DIR/leafd/leafd.sock if the directory $XDG_RUNTIME_DIR/leafd exists;
//  3. for users other than root, /tmp/leafd-UID/leafd.sock if that directory exists, belongs to the user and is
//     not writable by others;
//  4. /run/leafd/leafd.sock.
//
// The rules depend on which directories exist, not on which socket answers: if an application's daemon is down, the
// application must not get IDs from another one.
func DefaultSocketPath() string {
	return socketPath(os.Getenv, os.Geteuid(), "/tmp")
}

func socketPath(getenv func(string) string, uid int, tmp string) string {
	if path := getenv("LEAFD_SOCKET"); path != "" {
		return path
	}
	if uid == 0 {
		return systemSocket
	}
	// The XDG specification says to ignore relative paths.
	if base := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) {
		dir := filepath.Join(base, "leafd")
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Join(dir, "leafd.sock")
		}
	}
	dir := filepath.Join(tmp, "leafd-"+strconv.Itoa(uid))
	if isPrivateDir(dir, uid) {
		return filepath.Join(dir, "leafd.sock")
	}
	return systemSocket
}

// isPrivateDir reports whether path itself is a directory that belongs to uid and that nobody else can write to.
// Links are not followed, because anyone can make one in /tmp.
func isPrivateDir(path string, uid int) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	return owner(info) == uid
}

func owner(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
