package leafd

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestTheFirstRuleThatAppliesGivesThePath(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		// The rules for users, with files that belong to one.
		uid = 54321
	}
	base, tmp := t.TempDir(), t.TempDir()
	find := func(uid int, env map[string]string) string {
		return socketPath(func(name string) string { return env[name] }, uid, tmp)
	}
	private := filepath.Join(tmp, "leafd-"+strconv.Itoa(uid))
	mustDo := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string, uid int, env map[string]string) {
		t.Helper()
		if got := find(uid, env); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	xdg := map[string]string{"XDG_RUNTIME_DIR": base}

	expect("/a/b", uid, map[string]string{"LEAFD_SOCKET": "/a/b", "XDG_RUNTIME_DIR": base})
	expect("/a/b", 0, map[string]string{"LEAFD_SOCKET": "/a/b"})
	expect(systemSocket, uid, map[string]string{"LEAFD_SOCKET": ""})
	expect(systemSocket, uid, xdg)

	mustDo(os.Mkdir(private, 0o700))
	mustDo(os.Lchown(private, uid, -1))
	expect(private+"/leafd.sock", uid, xdg)
	expect(systemSocket, 0, xdg)
	for mode, isPrivate := range map[os.FileMode]bool{0o755: true, 0o720: false, 0o702: false, 0o700: true} {
		mustDo(os.Chmod(private, mode))
		if isPrivateDir(private, uid) != isPrivate {
			t.Errorf("%o", mode)
		}
	}
	if isPrivateDir(private, uid+1) {
		t.Error("it belongs to another user")
	}
	mustDo(os.Chmod(private, 0o700))

	mustDo(os.Mkdir(filepath.Join(base, "leafd"), 0o700))
	expect(base+"/leafd/leafd.sock", uid, xdg)
	expect(systemSocket, 0, xdg)
	expect(private+"/leafd.sock", uid, map[string]string{"XDG_RUNTIME_DIR": "relative"})

	mustDo(os.Rename(private, private+"-real"))
	mustDo(os.Symlink(private+"-real", private))
	expect(systemSocket, uid, nil)
}
