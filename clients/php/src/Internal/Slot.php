<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;
use Leafd\Options;

/**
 * The place of one connection. A call takes the connection out and puts it back once it has its answer, so a
 * call that starts in the middle of another one (a signal handler, a shutdown function, a coroutine) finds
 * the place empty and opens a connection of its own.
 *
 * @internal
 */
final class Slot
{
    /**
     * The places of persistent connections, by path. PHP empties this array at the end of the request, but
     * keeps the sockets.
     *
     * @var array<string, self>
     */
    private static array $persistent = [];

    private ?Connection $idle = null;

    /** Whether a call has the persistent connection now. */
    private bool $out = false;

    private function __construct(private readonly string $path, private readonly bool $isPersistent)
    {
    }

    public static function of(Options $options): self
    {
        return $options->persistent
            ? self::$persistent[$options->socket] ??= new self($options->socket, true)
            : new self($options->socket, false);
    }

    /** Takes the connection out; `null` if there is none. In the child of a fork it may be its parent's. */
    public function take(): ?Connection
    {
        // PHP may run a signal handler at a call or a jump. There is none before `idle` is empty, and none
        // before `out` is true, so a handler never finds the connection that this call takes.
        $connection = $this->idle;
        $this->idle = null;
        $this->out = $this->out || $connection !== null;

        return $connection;
    }

    /**
     * Opens a connection, for {@see self::put()} or {@see self::drop()}.
     *
     * @throws UnavailableException|RefusedException|ProtocolException|DeadlinePassed
     */
    public function open(int $deadline): Connection
    {
        if (!$this->isPersistent || $this->out) {
            return Connection::open($this->path, $deadline);
        }
        $this->out = true;
        $connection = null;
        try {
            return $connection = Connection::openPersistent($this->path, $deadline);
        } finally {
            $this->out = $connection !== null;
        }
    }

    /** Puts a connection back after an answer. */
    public function put(Connection $connection): void
    {
        if ($connection->isPersistent !== $this->isPersistent || !$connection->isUsable()) {
            $this->drop($connection);

            return;
        }
        $this->idle = $connection;
        $this->out = false;
    }

    /** Closes a connection that may still get an answer. */
    public function drop(Connection $connection): void
    {
        $connection->close();
        if ($connection->isPersistent) {
            $this->out = false;
        }
    }

    /** Closes the connection that waits here. Another client with the same place opens a new one. */
    public function clear(): void
    {
        $this->idle?->close();
        $this->idle = null;
    }
}
