//go:build !linux

package leafd

import "time"

// bootTime is the time since the package was loaded. On some systems it stands still during suspend.
func bootTime() time.Duration { return sinceStart() }
