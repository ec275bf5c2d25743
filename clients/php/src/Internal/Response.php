<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Run;
use Leafd\Status\DaemonStatus;
use Leafd\Status\SegmentStatus;
use Leafd\Status\SnowflakeState;
use Leafd\Status\SnowflakeStatus;

/**
 * A message from the daemon. The administrative replies are not here: this client never asks for them.
 *
 * @internal
 */
final class Response
{
    /** The longest body of a response, in bytes. */
    public const MAX_BYTES = 262_144;

    /** The ID of a message that answers no request. */
    public const UNSOLICITED = 0;

    private const RUN_BYTES = 12;

    /** A frame with one run: length, request ID, number of the reply, the run, and a list without entries. */
    private const ONE_RUN_FRAME_BYTES = 4 + 8 + 4 + self::RUN_BYTES + 8;

    /**
     * @param int    $id      the bits of the request ID
     * @param string $message the name of the reply, as the protocol gives it
     */
    private function __construct(
        public readonly int $id,
        public readonly string $message,
        public readonly RefusedException|HelloReply|IdsReply|TimeReply|DaemonStatus|null $reply,
    ) {
    }

    /** @throws ProtocolException if the body is not exactly one message */
    public static function decode(string $body): self
    {
        $in = new Reader($body);
        $id = $in->u64();
        [$message, $reply] = match ($number = $in->u32()) {
            0 => ['Error', self::error($in)],
            1 => ['Hello', new HelloReply($in->u16(), $in->u32(), $in->u32())],
            2 => ['Ids', self::ids($in)],
            3 => ['Time', new TimeReply($in->u64())],
            4 => ['Status', self::status($in)],
            6 => ['Goodbye', null],
            default => throw new ProtocolException("it sent a reply with the number $number, which is not expected"),
        };
        $in->end();

        return new self($id, $message, $reply);
    }

    /**
     * Decodes the most frequent answer in one step: one frame, which answers this request with one run of all
     * its IDs. For anything else the result is `null`, and {@see self::decode()} finds out what it is.
     *
     * @param string $id    the request ID, as it was sent
     * @param int    $count how many IDs were asked for, 1 or more
     *
     * @return int|null the first ID
     */
    public static function onlyRun(string $frame, string $id, int $count): ?int
    {
        if (
            \strlen($frame) !== self::ONE_RUN_FRAME_BYTES
            || !str_starts_with($frame, "\0\0\0\x20$id\x02\0\0\0")
            || !str_ends_with($frame, "\0\0\0\0\0\0\0\0")
        ) {
            return null;
        }
        /** @var array{first: int, count: int} $run */
        $run = unpack('Pfirst/Vcount', $frame, self::ONE_RUN_FRAME_BYTES - self::RUN_BYTES - 8);
        $first = $run['first'];

        return $run['count'] === $count && $first >= 0 && $first <= \PHP_INT_MAX - ($count - 1) ? $first : null;
    }

    private static function error(Reader $in): RefusedException
    {
        return new RefusedException($in->u16(), $in->u32(), $in->u64(), $in->str());
    }

    private static function ids(Reader $in): IdsReply
    {
        $runs = [new Run($in->u64(), $in->u32())];
        for ($more = $in->length(self::RUN_BYTES); $more > 0; --$more) {
            $runs[] = new Run($in->u64(), $in->u32());
        }

        return new IdsReply($runs);
    }

    private static function status(Reader $in): DaemonStatus
    {
        // Named arguments are evaluated in the order written here, which is that of the protocol.
        return new DaemonStatus(
            version: $in->str(),
            pid: $in->u32(),
            uptimeMs: $in->u64(),
            connections: $in->u32(),
            requests: $in->u64(),
            stateDir: $in->str(),
            segments: new SegmentStatus(
                store: $in->str(),
                storeError: $in->str(),
                tags: $in->u64(),
                waiting: $in->u64(),
                issued: $in->u64(),
                leases: $in->u64(),
            ),
            snowflake: new SnowflakeStatus(
                state: self::state($in),
                worker: $in->opt($in->u64(...)),
                registry: $in->str(),
                layout: $in->str(),
                ceilingUnixMs: $in->u64(),
                lastUnixMs: $in->u64(),
                clockUnixMs: $in->u64(),
                issued: $in->u64(),
                identity: $in->str(),
                lastReportMsAgo: $in->opt($in->u64(...)),
                registryError: $in->str(),
                limitUnixMs: $in->opt($in->u64(...)),
                clockOffsetMs: $in->opt($in->i64(...)),
                peers: $in->u32(),
            ),
        );
    }

    private static function state(Reader $in): SnowflakeState
    {
        return match ($number = $in->u32()) {
            0 => new SnowflakeState('Serving'),
            1 => new SnowflakeState('ClockBehind', behindMs: $in->u64()),
            2 => new SnowflakeState('Refused', reason: $in->str()),
            3 => new SnowflakeState('Starting', reason: $in->str()),
            default => throw new ProtocolException("it sent the unknown snowflake state $number"),
        };
    }
}
