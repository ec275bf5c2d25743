package leafd

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME, which goes on while the machine is suspended, unlike the clock of package time.
const clockBoottime = 7

// bootTime is the time since the machine started.
func bootTime() time.Duration {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return sinceStart()
	}
	return time.Duration(now.Nano())
}
