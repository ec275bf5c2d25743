<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Exception\RefusedException;

/**
 * A call whose arguments are checked, ready to be encoded: header (big-endian), request ID, number of the
 * call, fields. Request IDs are unsigned; PHP's integers hold their bits.
 *
 * @internal
 */
final class Request
{
    /** The newest version of the protocol that this client speaks. */
    public const VERSION = 1;

    private const MAX_U32 = 0xFFFF_FFFF;
    private const MAX_TAG_CHARACTERS = 128;

    private readonly string $head;

    /** What follows the request ID, with the timeout of the last frame: most calls have the same one. */
    private string $rest = '';

    private int $timeoutMs = -1;

    /**
     * @param string $name   the name of the call, as the protocol gives it
     * @param string $fields the fields before the timeout
     * @param bool   $timed  whether the call ends with a timeout
     * @param int    $count  how many IDs it asks for
     */
    private function __construct(
        public readonly string $name,
        private readonly int $call,
        private readonly string $fields = '',
        private readonly bool $timed = false,
        public readonly int $count = 0,
    ) {
        $this->head = pack('N', 12 + \strlen($fields) + ($timed ? 4 : 0));
    }

    public static function hello(int $version = self::VERSION): self
    {
        return new self('Hello', 0, 'LEAF' . pack('v', $version));
    }

    /** @throws InvalidArgumentException|RefusedException */
    public static function segment(string $tag, int $count): self
    {
        self::checkTag($tag);

        return new self('Segment', 1, pack('P', \strlen($tag)) . $tag . self::count($count), true, $count);
    }

    /** @throws InvalidArgumentException|RefusedException */
    public static function snowflake(int $count): self
    {
        return new self('Snowflake', 2, self::count($count), true, $count);
    }

    public static function time(): self
    {
        return new self('Time', 3);
    }

    public static function status(): self
    {
        return new self('Status', 4);
    }

    /** The frame of the call. `$timeoutMs` is the longest wait in the daemon. */
    public function frame(int $id, int $timeoutMs = 0): string
    {
        // A signal handler may make a frame too, but none runs between these two reads, or between the two writes.
        $rest = $this->rest;
        if ($this->timeoutMs !== $timeoutMs) {
            $rest = pack('V', $this->call) . $this->fields . ($this->timed ? pack('V', $timeoutMs) : '');
            $this->rest = $rest;
            $this->timeoutMs = $timeoutMs;
        }

        return $this->head . pack('P', $id) . $rest;
    }

    /**
     * The timeout to send with a request: a little less than the time left, so that the daemon's error,
     * which names the cause, arrives before the caller's deadline. Never 0, which stands for the daemon's
     * default.
     */
    public static function daemonTimeoutMs(int $leftNs): int
    {
        // Without calls of functions: this runs with every request.
        $less = $leftNs < 500_000_000 ? $leftNs - $leftNs / 10 : $leftNs - 50_000_000;

        return $less < 1_000_000 ? 1 : (int) ($less / 1_000_000);
    }

    private static function count(int $count): string
    {
        if ($count < 1) {
            throw new InvalidArgumentException("the count is $count; request 1 ID or more");
        }
        if ($count > self::MAX_U32) {
            throw new RefusedException(200, 0, self::MAX_U32, "a count of $count does not fit a request");
        }

        return pack('V', $count);
    }

    private static function checkTag(string $tag): void
    {
        if (preg_match('/\A[^\x{0}-\x{1F}\x{7F}-\x{9F}]{1,128}\z/u', $tag) === 1) {
            return;
        }
        $fault = match (true) {
            $tag === '' => 'is empty; a tag has 1 to 128 characters',
            preg_match('//u', $tag) !== 1 => 'is not valid UTF-8',
            preg_match('/[\x{0}-\x{1F}\x{7F}-\x{9F}]/u', $tag) === 1 => 'contains a control character; remove it',
            default => sprintf(
                'has %d characters; at most %d are allowed',
                (int) preg_match_all('/./su', $tag),
                self::MAX_TAG_CHARACTERS,
            ),
        };
        throw new InvalidArgumentException("the tag $fault");
    }
}
