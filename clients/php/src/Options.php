<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Exception\InvalidArgumentException;

/** How to reach the daemon and how long to try. */
final class Options
{
    /** The longest timeout: 24 hours. */
    public const MAX_MS = 86_400_000;

    /** The longest path that the system accepts for a socket, in bytes. PHP would cut a longer one short. */
    private const MAX_PATH_BYTES = 107;

    /** The path of the daemon's socket. */
    public readonly string $socket;

    public readonly int $timeoutMs;

    public readonly int $backoffMinMs;

    public readonly int $backoffMaxMs;

    /**
     * @param string|null $socket       the path of the socket; `null` searches for it, see {@see SocketPath::find()}
     * @param int         $timeoutMs    the timeout of a call, which covers connecting, waiting and repeating:
     *                                  1 ms to 24 h; a longer one is lowered to 24 h
     * @param int         $backoffMinMs the first pause between attempts to connect: 1 ms to 24 h, moved into it. Pauses double,
     *                                  and random jitter shortens each by up to half
     * @param int         $backoffMaxMs the longest pause; raised to `$backoffMinMs` if it is below
     * @param bool        $persistent   whether the connection outlives the request, once per process and path.
     *                                  For php-fpm; it saves connecting anew in every request
     *
     * @throws InvalidArgumentException if the path is empty, too long or holds a NUL byte, or the timeout is below 1 ms
     */
    public function __construct(
        ?string $socket = null,
        int $timeoutMs = 5000,
        int $backoffMinMs = 5,
        int $backoffMaxMs = 500,
        public readonly bool $persistent = false,
    ) {
        $this->socket = $socket ?? SocketPath::find();
        if ($this->socket === '') {
            throw new InvalidArgumentException('the path of the socket is empty');
        }
        if (\strlen($this->socket) > self::MAX_PATH_BYTES) {
            throw new InvalidArgumentException(sprintf(
                'the path of the socket has %d bytes; at most %d are allowed: %s',
                \strlen($this->socket),
                self::MAX_PATH_BYTES,
                $this->socket,
            ));
        }
        if (str_contains($this->socket, "\0")) {
            throw new InvalidArgumentException('the path of the socket holds a NUL byte');
        }
        $this->timeoutMs = self::timeout($timeoutMs);
        $this->backoffMinMs = min(max($backoffMinMs, 1), self::MAX_MS);
        $this->backoffMaxMs = min(max($backoffMaxMs, $this->backoffMinMs), self::MAX_MS);
    }

    /**
     * Checks a timeout and lowers it to 24 h.
     *
     * @internal
     *
     * @throws InvalidArgumentException
     */
    public static function timeout(int $ms): int
    {
        if ($ms < 1) {
            throw new InvalidArgumentException("the timeout is $ms ms; it has to be 1 ms or more");
        }

        return min($ms, self::MAX_MS);
    }
}
