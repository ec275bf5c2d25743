<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Internal\Quiet;

/**
 * Where the daemon's socket is. The choice depends on which directories exist, never on which socket
 * answers: if an application's daemon is down, it must not silently get IDs from another one.
 */
final class SocketPath
{
    /** The socket of a daemon that runs as a system service. */
    public const SYSTEM = '/run/leafd/leafd.sock';

    /**
     * The first of these that applies:
     *
     * 1. `$LEAFD_SOCKET`, if set and not empty;
     * 2. for users other than root, `$XDG_RUNTIME_DIR/leafd/leafd.sock` if the directory
     *    `$XDG_RUNTIME_DIR/leafd` exists;
     * 3. for users other than root, `/tmp/leafd-<uid>/leafd.sock` if that directory exists, belongs to the
     *    user and is not writable by others;
     * 4. `/run/leafd/leafd.sock`.
     */
    public static function find(): string
    {
        $named = getenv('LEAFD_SOCKET');
        if ($named !== false && $named !== '') {
            return $named;
        }
        $uid = self::effectiveUid();
        if ($uid === 0) {
            return self::SYSTEM;
        }
        $base = getenv('XDG_RUNTIME_DIR');
        // The XDG specification says to ignore relative paths.
        if ($base !== false && str_starts_with($base, '/') && self::isDirectory("$base/leafd")) {
            return "$base/leafd/leafd.sock";
        }
        if ($uid !== null && self::isPrivateDirectory("/tmp/leafd-$uid", $uid)) {
            return "/tmp/leafd-$uid/leafd.sock";
        }

        return self::SYSTEM;
    }

    /**
     * Whether the path itself is a directory that belongs to the user and that nobody else can write to.
     * Links are not followed, because anyone can create one in /tmp.
     *
     * @internal
     */
    public static function isPrivateDirectory(string $path, int $uid): bool
    {
        clearstatcache();
        $stat = Quiet::call(static fn () => lstat($path));

        return \is_array($stat)
            && ($stat['mode'] & 0o170000) === 0o040000
            && $stat['uid'] === $uid
            && ($stat['mode'] & 0o022) === 0;
    }

    private static function isDirectory(string $path): bool
    {
        clearstatcache();

        return Quiet::call(static fn () => is_dir($path));
    }

    private static function effectiveUid(): ?int
    {
        if (\function_exists('posix_geteuid')) {
            return posix_geteuid();
        }
        clearstatcache();
        // This directory belongs to the effective user of the process.
        $uid = Quiet::call(static fn () => fileowner('/proc/self'));

        return \is_int($uid) ? $uid : null;
    }
}
