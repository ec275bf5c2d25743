<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Exception\ClosedException;
use Leafd\Exception\DeadlineException;
use Leafd\Exception\LeafdException;
use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;
use Leafd\Exception\UnsupportedException;
use Leafd\Internal\Backoff;
use Leafd\Internal\Connection;
use Leafd\Internal\DeadlinePassed;
use Leafd\Internal\IdsReply;
use Leafd\Internal\Request;
use Leafd\Internal\Response;
use Leafd\Internal\Slot;
use Leafd\Internal\TimeReply;
use Leafd\Status\DaemonStatus;

/**
 * A client of leafd, with one connection.
 *
 * It connects at the first call and reconnects when the connection is lost. It then repeats a call that got
 * no answer, which may skip IDs but never repeats one. A call fails only if its timeout passes, the daemon
 * refuses it, or the peer breaks the protocol.
 *
 * After a fork, the child's copy of a client opens a connection of its own at its first call, and only closes
 * its copy of the parent's descriptor.
 */
final class Client
{
    /** The system's sleep takes 32 bits of microseconds. */
    private const LONGEST_SLEEP_NS = 1_000_000_000;

    /** The most tags whose requests are kept. */
    private const REQUESTS = 100;

    private readonly Slot $slot;

    private Backoff $backoff;

    /** The process that the backoff belongs to. */
    private int $pid;

    private bool $closed = false;

    /** @var array<string, Batch> */
    private array $batches = [];

    /** The requests for one ID, by tag. @var array<string, Request> */
    private array $requests = [];

    /** @var \Closure(Response|int, Request): int */
    private readonly \Closure $readFirst;

    /** @var \Closure(Response|int, Request): Ids */
    private readonly \Closure $readIds;

    /** @throws UnsupportedException if this PHP has no integers of 64 bits */
    public function __construct(private readonly Options $options = new Options())
    {
        if (\PHP_INT_SIZE < 8) {
            throw new UnsupportedException('leafd needs a 64-bit build of PHP: IDs do not fit its integers');
        }
        $this->slot = Slot::of($options);
        $this->readFirst = static fn (Response|int $answer, Request $request): int
            => \is_int($answer) ? $answer : self::ids($answer, $request)->first();
        $this->readIds = static fn (Response|int $answer, Request $request): Ids
            => \is_int($answer) ? Ids::run($answer, $request->count) : self::ids($answer, $request);
        $this->startBackoff();
    }

    /**
     * Gets one ID of the tag.
     *
     * @param string   $tag       1 to 128 characters of UTF-8 without control characters
     * @param int|null $timeoutMs as in {@see Options}, for this call
     *
     * @throws LeafdException
     */
    public function next(string $tag, ?int $timeoutMs = null): int
    {
        return $this->call($this->requests[$tag] ?? $this->request($tag), $timeoutMs, $this->readFirst);
    }

    /**
     * Gets `$count` IDs of the tag, at most the daemon's limit (100,000 by default).
     *
     * @throws LeafdException
     */
    public function nextMany(string $tag, int $count, ?int $timeoutMs = null): Ids
    {
        return $this->call(Request::segment($tag, $count), $timeoutMs, $this->readIds);
    }

    /**
     * Gets one snowflake ID. {@see Layout::decode()} splits it into its parts.
     *
     * @throws LeafdException
     */
    public function snowflake(?int $timeoutMs = null): int
    {
        return $this->snowflakes(1, $timeoutMs)->first();
    }

    /**
     * Gets `$count` snowflake IDs, at most the daemon's limit (100,000 by default).
     *
     * @throws LeafdException
     */
    public function snowflakes(int $count, ?int $timeoutMs = null): Ids
    {
        return $this->call(Request::snowflake($count), $timeoutMs, $this->readIds);
    }

    /**
     * Hands out the IDs of a tag one by one from a lease of `$size`. There is one batch per tag: a later call
     * returns the same one, and its next lease has the new size.
     *
     * @throws LeafdException if an argument is invalid; nothing is leased before the first ID is taken
     */
    public function batch(string $tag, int $size): Batch
    {
        // Only for its checks.
        Request::segment($tag, $size);
        if (isset($this->batches[$tag])) {
            $this->batches[$tag]->resize($size);
        }

        return $this->batches[$tag] ??= new Batch($this, $tag, $size);
    }

    /**
     * Reads the clock of the daemon's host, in milliseconds since 1970-01-01T00:00:00Z.
     *
     * @throws LeafdException
     */
    public function time(?int $timeoutMs = null): int
    {
        return $this->call(Request::time(), $timeoutMs, static function (Response|int $answer): int {
            $reply = \is_int($answer) ? null : $answer->reply;
            if (!$reply instanceof TimeReply) {
                throw self::unexpected('Time', $answer);
            }
            if ($reply->unixMs < 0) {
                throw new ProtocolException(sprintf('it sent the time %u ms, which does not fit', $reply->unixMs));
            }

            return $reply->unixMs;
        });
    }

    /**
     * Gets the status of the daemon: connections, store, state and snowflake IDs.
     *
     * @throws LeafdException
     */
    public function status(?int $timeoutMs = null): DaemonStatus
    {
        return $this->call(Request::status(), $timeoutMs, static fn (Response|int $answer): DaemonStatus
            => $answer instanceof Response && $answer->reply instanceof DaemonStatus
                ? $answer->reply
                : throw self::unexpected('Status', $answer));
    }

    /** Closes the connection, also a persistent one. Later calls throw a {@see ClosedException}. */
    public function close(): void
    {
        $this->closed = true;
        $this->slot->clear();
        $this->batches = [];
    }

    /** Makes the request for one ID of the tag, and keeps it for the next call. */
    private function request(string $tag): Request
    {
        $request = Request::segment($tag, 1);
        if (\count($this->requests) === self::REQUESTS) {
            $this->requests = [];
        }

        return $this->requests[$tag] = $request;
    }

    /**
     * Sends the request, on new connections if need be, until an answer arrives or the deadline passes.
     *
     * @template T
     *
     * @param callable(Response|int, Request): T $read
     *
     * @return T
     */
    private function call(Request $request, ?int $timeoutMs, callable $read): mixed
    {
        $timeoutMs = $timeoutMs === null ? $this->options->timeoutMs : Options::timeout($timeoutMs);
        $deadline = hrtime(true) + $timeoutMs * 1_000_000;
        $last = null;
        while (true) {
            if ($this->closed) {
                throw new ClosedException();
            }
            $connection = $this->slot->take() ?? $this->connect($deadline, $last);
            $answered = false;
            try {
                $answer = $connection->exchange($request, $deadline);
                $result = $answer instanceof Response && $answer->reply instanceof RefusedException
                    ? $answer->reply
                    : $read($answer, $request);
                $answered = true;
            } catch (DeadlinePassed) {
                $this->lost();
                throw new DeadlineException($request->name, $timeoutMs);
            } catch (UnavailableException|RefusedException|ProtocolException $e) {
                if ($connection->isInherited || $connection->pid !== getmypid()) {
                    // The fault may lie in what an earlier request of PHP left behind, or the connection is that
                    // of a parent process. A new socket decides.
                    continue;
                }
                $this->lost($e);
                if (!$e->isTemporary()) {
                    throw $e;
                }
                $last = $e;
                continue;
            } finally {
                // Also if a signal handler threw: a late answer must never reach the next call.
                if (!$answered) {
                    $this->slot->drop($connection);
                }
            }
            $this->backoff->answered();
            if ($this->closed) {
                $this->slot->drop($connection);
            } else {
                $this->slot->put($connection);
            }
            // If a signal handler forked meanwhile, the answer is the parent's. As late as possible: from here on, it
            // copies an answer that is the caller's.
            if ($connection->pid !== getmypid()) {
                continue;
            }

            return $result instanceof RefusedException ? throw $result : $result;
        }
    }

    /** Connects, with pauses, until it succeeds, the daemon refuses for good, or the deadline passes. */
    private function connect(int $deadline, UnavailableException|RefusedException|null $last): Connection
    {
        if ($this->pid !== getmypid()) {
            $this->startBackoff();
        }
        while (true) {
            while (($now = hrtime(true)) < $deadline && ($pause = $this->backoff->pause($now)) > 0) {
                usleep(intdiv(min($pause, $deadline - $now, self::LONGEST_SLEEP_NS), 1000) + 1);
            }
            if ($now >= $deadline) {
                throw $last ?? $this->noHello();
            }
            try {
                return $this->slot->open($deadline);
            } catch (DeadlinePassed) {
                throw $last ?? $this->noHello();
            } catch (UnavailableException|RefusedException|ProtocolException $e) {
                $this->lost($e);
                if (!$e->isTemporary()) {
                    throw $e;
                }
                $last = $e;
            }
        }
    }

    private function startBackoff(): void
    {
        $this->pid = (int) getmypid();
        $this->backoff = new Backoff($this->options->backoffMinMs, $this->options->backoffMaxMs);
    }

    private function lost(?LeafdException $e = null): void
    {
        $retryAfterMs = $e instanceof RefusedException ? $e->retryAfterMs : 0;
        $this->backoff->lost(hrtime(true), random_int(0, 1_000_000) / 1e6, $retryAfterMs);
    }

    private function noHello(): UnavailableException
    {
        return new UnavailableException($this->options->socket, 'it did not say hello in time');
    }

    private static function ids(Response $response, Request $request): Ids
    {
        return $response->reply instanceof IdsReply
            ? Ids::check($response->reply->runs, $request->count)
            : throw self::unexpected('Ids', $response);
    }

    private static function unexpected(string $expected, Response|int $answer): ProtocolException
    {
        $message = \is_int($answer) ? 'Ids' : $answer->message;

        return new ProtocolException("it answered with $message instead of $expected");
    }

    /** Two clients with one connection would read each other's answers. */
    private function __clone()
    {
    }

    /** @return never */
    public function __serialize(): array
    {
        throw new \LogicException('a client cannot be serialized: it holds a connection');
    }
}
