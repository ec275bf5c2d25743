<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\LeafdException;
use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;

/**
 * A connection after the handshake: one request, then its answer, before a deadline. Deadlines are in
 * nanoseconds of `hrtime`. An exception means that the connection is over; errors in answer to a request are
 * returned.
 *
 * Request IDs begin at a random number, since a persistent socket outlives the request of PHP that counted
 * them: an answer that is still under way there must never look like one of ours.
 *
 * @internal
 */
final class Connection
{
    /** How long to read after the daemon has said goodbye, or after a write failed. Answers from memory take
     * far less; other calls are repeated on the next connection. */
    private const DRAIN_NS = 100_000_000;

    /** How long an inherited socket may take to answer `Hello`. If a request was cut off while it was being
     * written, the daemon waits for the rest and does not answer at all. */
    private const INHERITED_HELLO_NS = 200_000_000;

    private const HEADER_BYTES = 4;

    /** Bytes read at once: enough for ordinary answers. */
    private const CHUNK_BYTES = 2048;

    /** Bytes that were read but not decoded yet. */
    private string $unread = '';

    private int $lastId;

    /** Whether the daemon said goodbye. */
    private bool $leaving = false;

    /** Whether `select` can watch the socket. It cannot if the descriptor is 1024 or above. */
    private readonly bool $isSelectable;

    private readonly Quiet $quiet;

    /**
     * @param int      $pid          the process that made the connection, read before connecting: a signal handler may
     *                               fork right after that
     * @param resource $stream
     * @param bool     $isPersistent whether the socket outlives the request of PHP
     * @param bool     $isInherited  whether an earlier request of PHP may have used this socket
     */
    private function __construct(
        public readonly int $pid,
        private readonly string $path,
        private readonly mixed $stream,
        public readonly bool $isPersistent = false,
        public readonly bool $isInherited = false,
    ) {
        $this->quiet = new Quiet();
        $this->lastId = random_int(\PHP_INT_MIN, \PHP_INT_MAX);
        stream_set_blocking($stream, false);
        // PHP's own buffer would outlive the request together with a persistent socket.
        stream_set_read_buffer($stream, 0);
        [$read, $write, $except] = [[$stream], [], []];
        Quiet::call(static fn () => stream_select($read, $write, $except, 0));
        $this->isSelectable = !str_contains(Quiet::$warning, 'FD_SETSIZE');
    }

    /**
     * Connects and says hello.
     *
     * @throws UnavailableException|RefusedException|ProtocolException|DeadlinePassed
     */
    public static function open(string $path, int $deadline): self
    {
        $pid = (int) getmypid();

        return (new self($pid, $path, self::dial($path, $deadline, false)))->greeted($deadline);
    }

    /**
     * Takes over this process's persistent socket, or makes it. Anything but the exact answer to `Hello`
     * makes an inherited one useless.
     *
     * @throws UnavailableException|RefusedException|ProtocolException|DeadlinePassed
     */
    public static function openPersistent(string $path, int $deadline): self
    {
        $pid = (int) getmypid();
        $stream = self::dial($path, $deadline, true);
        // New sockets block, and the constructor changes that before anything is written.
        if (!stream_get_meta_data($stream)['blocked']) {
            $connection = new self($pid, $path, $stream, true, true);
            try {
                return $connection->greeted(min($deadline, hrtime(true) + self::INHERITED_HELLO_NS));
            } catch (LeafdException|DeadlinePassed) {
                // Whatever it was: a new socket decides.
                $stream = self::dial($path, $deadline, true);
            }
        }

        return (new self($pid, $path, $stream, true))->greeted($deadline);
    }

    /**
     * Sends a request and waits for its answer.
     *
     * @return Response|int the answer; its first ID if that is one run with all IDs
     *
     * @throws UnavailableException|RefusedException|ProtocolException|DeadlinePassed
     */
    public function exchange(Request $request, int $deadline): Response|int
    {
        try {
            $this->quiet->previous = set_error_handler($this->quiet);
            if ($this->unread !== '') {
                $this->readUnasked();
            }
            $id = $this->lastId = self::idAfter($this->lastId);
            $frame = $request->frame($id, Request::daemonTimeoutMs($deadline - hrtime(true)));
            if (!$this->send($frame, $deadline)) {
                return $this->answer($id, $deadline, true);
            }
            if ($this->unread === '' && $request->count > 0) {
                $this->wait($deadline, write: false);
                $this->fill();
                $first = Response::onlyRun($this->unread, substr($frame, self::HEADER_BYTES, 8), $request->count);
                if ($first !== null) {
                    $this->unread = '';

                    return $first;
                }
            }

            return $this->answer($id, $deadline, false);
        } finally {
            restore_error_handler();
        }
    }

    /**
     * Waits for the answer to a request, in whatever form it comes.
     *
     * @param bool $failed whether writing failed: then the reason can still be read
     */
    private function answer(int $id, int $deadline, bool $failed): Response
    {
        $drained = $failed ? min($deadline, hrtime(true) + self::DRAIN_NS) : null;
        while (true) {
            try {
                $response = $this->receive($drained ?? $deadline);
            } catch (DeadlinePassed $e) {
                if ($drained === null || $drained >= $deadline) {
                    throw $e;
                }
                throw $this->lost($this->leaving ? 'the daemon is stopping' : 'writing failed');
            }
            if ($response->id !== Response::UNSOLICITED && $response->id !== $id) {
                throw new ProtocolException(
                    sprintf('it answered request %u, which was never sent or already has an answer', $response->id)
                );
            }
            $error = $response->reply instanceof RefusedException ? $response->reply : null;
            if ($response->message === 'Goodbye' || ($response->id === 0 && $error?->number === 309)) {
                $this->leaving = true;
                $drained ??= min($deadline, hrtime(true) + self::DRAIN_NS);
            } elseif ($error?->number === 309) {
                throw $this->lost('the daemon is stopping');
            } elseif ($response->id === Response::UNSOLICITED) {
                throw $error ?? new ProtocolException("it sent $response->message without a request");
            } else {
                return $response;
            }
        }
    }

    /** Whether the connection can take another request. */
    public function isUsable(): bool
    {
        return !$this->leaving && \is_resource($this->stream);
    }

    /** Closes this process's descriptor. Never a shutdown, which would end the connection of a parent too. */
    public function close(): void
    {
        if (\is_resource($this->stream)) {
            fclose($this->stream);
        }
    }

    /** The request ID after this one: counts on as an unsigned number, and leaves out 0. */
    public static function idAfter(int $id): int
    {
        $next = $id === \PHP_INT_MAX ? \PHP_INT_MIN : $id + 1;

        return $next === 0 ? 1 : $next;
    }

    /** @return resource */
    private static function dial(string $path, int $deadline, bool $persistent): mixed
    {
        $left = max(($deadline - hrtime(true)) / 1e9, 0.001);
        $errno = 0;
        $reason = '';
        // PHP keeps persistent sockets by address and port. A Unix socket has no port, and PHP ignores a
        // negative one: it is the process here, so that the child of a fork never finds its parent's socket.
        $stream = Quiet::call(static function () use ($path, $persistent, $left, &$errno, &$reason): mixed {
            return $persistent && \function_exists('pfsockopen')
                ? pfsockopen("unix://$path", -(int) getmypid(), $errno, $reason, $left)
                : stream_socket_client("unix://$path", $errno, $reason, $left);
        });
        if ($stream === false) {
            throw new UnavailableException($path, $reason !== '' ? $reason : Quiet::$warning, (int) $errno);
        }

        return $stream;
    }

    private function greeted(int $deadline): self
    {
        $done = false;
        try {
            $this->quiet->previous = set_error_handler($this->quiet);
            if ($this->isInherited) {
                $this->fill();
                $this->readUnasked();
            }
            $this->greet($deadline);
            $done = true;
        } finally {
            restore_error_handler();
            if (!$done) {
                $this->close();
            }
        }

        return $this;
    }

    private function greet(int $deadline): void
    {
        $id = $this->lastId = self::idAfter($this->lastId);
        // The daemon may have refused the connection and closed it already. Then writing fails, but the
        // reason can still be read.
        $this->send(Request::hello()->frame($id), $deadline);
        $response = $this->receive($deadline);
        $reply = $response->reply;
        if ($response->message === 'Goodbye' || ($reply instanceof RefusedException && $reply->number === 309)) {
            throw $this->lost('the daemon is stopping');
        }
        if ($reply instanceof RefusedException && \in_array($response->id, [$id, Response::UNSOLICITED], true)) {
            throw $reply;
        }
        if ($response->id !== $id) {
            throw new ProtocolException(sprintf('it answered request %u, which was never sent', $response->id));
        }
        if (!$reply instanceof HelloReply) {
            throw new ProtocolException("it answered with $response->message instead of Hello");
        }
        if ($reply->version !== Request::VERSION) {
            throw new ProtocolException("it chose protocol version $reply->version, which was not offered");
        }
        if ($this->isInherited && $this->unread !== '') {
            throw $this->lost('bytes of an earlier request were left in the socket');
        }
    }

    /** Looks at what was read while nothing was asked: a goodbye, or the reason why the daemon closes. */
    private function readUnasked(): void
    {
        while (($response = $this->take()) !== null) {
            if ($response->message === 'Goodbye') {
                throw $this->lost('the daemon is stopping');
            }
            if ($response->id === Response::UNSOLICITED && $response->reply instanceof RefusedException) {
                throw $response->reply->number === 309 ? $this->lost('the daemon is stopping') : $response->reply;
            }
            throw new ProtocolException("it sent $response->message without a request");
        }
    }

    /** Whether all could be written. If not, the daemon has closed the connection. */
    private function send(string $bytes, int $deadline): bool
    {
        while (true) {
            // What a forked child wrote would be a second request. PHP runs signal handlers after a call and at a jump,
            // so there is neither between the look at the process and the write: it is the last moment to look.
            $written = \is_resource($this->stream) && $this->pid === getmypid()
                ? fwrite($this->stream, $bytes)
                : false;
            if ($written === \strlen($bytes)) {
                return true;
            }
            if ($written === false) {
                $this->checkOwner();

                return false;
            }
            $bytes = substr($bytes, $written);
            $this->wait($deadline, write: true);
        }
    }

    private function receive(int $deadline): Response
    {
        while (($response = $this->take()) === null) {
            $this->wait($deadline, write: false);
            $this->fill();
        }

        return $response;
    }

    /** The next frame, if all of it has arrived. */
    private function take(): ?Response
    {
        if (\strlen($this->unread) < self::HEADER_BYTES) {
            return null;
        }
        /** @var array{1: int} $header */
        $header = unpack('N', $this->unread);
        $length = $header[1];
        if ($length > Response::MAX_BYTES) {
            throw new ProtocolException(
                sprintf('it announced a message of %d bytes; at most %d are allowed', $length, Response::MAX_BYTES)
            );
        }
        if (\strlen($this->unread) < self::HEADER_BYTES + $length) {
            return null;
        }
        $body = substr($this->unread, self::HEADER_BYTES, $length);
        $this->unread = substr($this->unread, self::HEADER_BYTES + $length);

        return Response::decode($body);
    }

    /** Reads what is there. */
    private function fill(): void
    {
        $bytes = \is_resource($this->stream) && $this->pid === getmypid()
            ? fread($this->stream, self::CHUNK_BYTES)
            : false;
        if ($bytes !== false && $bytes !== '') {
            $this->unread .= $bytes;

            return;
        }
        $this->checkOwner();
        if ($bytes === false || stream_get_meta_data($this->stream)['eof']) {
            throw $this->lost('the daemon closed the connection');
        }
    }

    /** Waits until the socket is ready, at most until the deadline. A signal ends it early. */
    private function wait(int $deadline, bool $write): void
    {
        $left = $deadline - hrtime(true);
        if ($left <= 0) {
            throw new DeadlinePassed();
        }
        if (!\is_resource($this->stream)) {
            return;
        }
        if (!$this->isSelectable) {
            usleep(min(intdiv($left, 1000) + 1, 200));

            return;
        }
        $read = $write ? null : [$this->stream];
        $write = $write ? [$this->stream] : null;
        $except = null;
        // Rounded up: a wait of 0 µs would spin.
        $us = intdiv($left, 1000) + 1;
        // A child would wait for its parent's answer.
        $this->checkOwner();
        stream_select($read, $write, $except, 0, $us);
    }

    /** Fails in a child that a signal handler forked in the middle of a call: what comes here is the parent's. */
    private function checkOwner(): void
    {
        if ($this->pid !== getmypid()) {
            throw $this->lost('the process was forked');
        }
    }

    private function lost(string $reason): UnavailableException
    {
        return new UnavailableException($this->path, $reason);
    }
}
