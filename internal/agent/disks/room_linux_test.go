package disks

import (
	"syscall"
	"testing"
)

func TestLacking(t *testing.T) {
	for _, tt := range []struct {
		name string
		st   syscall.Statfs_t
		want string
	}{
		{"enough", syscall.Statfs_t{Blocks: 1000, Bavail: 256, Bsize: 4096, Files: 9, Ffree: 1}, ""},
		{"a block less", syscall.Statfs_t{Blocks: 1000, Bavail: 255, Bsize: 4096, Files: 9, Ffree: 1}, "1044480 bytes are left of 4096000"},
		{"no inodes", syscall.Statfs_t{Blocks: 1000, Bavail: 256, Bsize: 4096, Files: 9}, "no inodes are left"},
		{"what counts neither", syscall.Statfs_t{Bsize: 4096}, ""},
	} {
		if got := lacking(tt.st); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestAProbeTellsTheRoom: the replicator places copies by it.
func TestAProbeTellsTheRoom(t *testing.T) {
	dir := t.TempDir()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	f := ask(t, Question{Path: dir, Host: "cmp-01", New: value})
	if f.Total != int64(st.Blocks)*st.Bsize || f.Free <= 0 || f.Free > f.Total {
		t.Errorf("%d free of %d, want of %d", f.Free, f.Total, int64(st.Blocks)*st.Bsize)
	}
}
