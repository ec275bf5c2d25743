<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Exception\InvalidArgumentException;

/**
 * The bits of a snowflake ID: time, worker and sequence, at most 63 in all. Plain arithmetic; needs no daemon.
 */
final class Layout
{
    private const PRESETS = [
        'leaf' => [1, 1_288_834_974_657, 41, 10, 12, 0],
        'twitter' => [1, 1_288_834_974_657, 41, 10, 12, 5],
        'baidu' => [1000, 1_463_673_600_000, 28, 22, 13, 0],
        'js' => [10, 1_767_225_600_000, 37, 8, 8, 0],
        'sonyflake' => [10, 1_409_529_600_000, 39, 16, 8, 0, true],
        'discord' => [1, 1_420_070_400_000, 41, 10, 12, 5],
    ];

    /**
     * @param int  $unitMs              the time unit: 1, 10 or 1000 ms
     * @param int  $epochMs             the time 0, in milliseconds since 1970
     * @param int  $datacenterBits      how many of the upper worker bits are the data centre
     * @param bool $sequenceAboveWorker whether the sequence is above the worker
     *
     * @throws InvalidArgumentException if the bits make more than 63, or a number is out of range
     */
    public function __construct(
        public readonly int $unitMs,
        public readonly int $epochMs,
        public readonly int $timeBits,
        public readonly int $workerBits,
        public readonly int $sequenceBits,
        public readonly int $datacenterBits = 0,
        public readonly bool $sequenceAboveWorker = false,
    ) {
        if (!\in_array($unitMs, [1, 10, 1000], true)) {
            throw new InvalidArgumentException("a unit of $unitMs ms is not supported; use 1, 10 or 1000");
        }
        if ($epochMs < 0) {
            throw new InvalidArgumentException("the epoch $epochMs is before 1970");
        }
        if ($timeBits < 1 || $sequenceBits < 1 || $workerBits < 0) {
            throw new InvalidArgumentException('time and sequence need at least one bit each');
        }
        if (max($timeBits, $workerBits, $sequenceBits) > 63 || $timeBits + $workerBits + $sequenceBits > 63) {
            throw new InvalidArgumentException(
                "time $timeBits + worker $workerBits + sequence $sequenceBits bits make more than 63"
            );
        }
        if ($datacenterBits < 0 || $datacenterBits > $workerBits) {
            throw new InvalidArgumentException("$datacenterBits data centre bits do not fit into $workerBits worker bits");
        }
    }

    /** Leaf's layout, the default of leafd: milliseconds since 2010-11-04, 10 bits of worker, 12 of sequence. */
    public static function leaf(): self
    {
        return new self(...self::PRESETS['leaf']);
    }

    /**
     * Reads `leaf`, `twitter`, `baidu`, `js`, `sonyflake` or `discord`, each with an optional epoch as in
     * `baidu@2026-01-01`, or the form `TIME/WORKER/SEQUENCE@EPOCH/UNITms`, as in `41/10/12@1288834974657/1ms`;
     * `TIME/sSEQUENCE/wWORKER@EPOCH/UNITms` has the sequence above the worker. The unit defaults to 1 ms. An epoch
     * is in milliseconds since 1970, or a date in UTC.
     *
     * @throws InvalidArgumentException
     */
    public static function parse(string $text): self
    {
        [$name, $epoch] = explode('@', $text, 2) + [1 => null];
        if (isset(self::PRESETS[$name])) {
            $preset = self::PRESETS[$name];
            $preset[1] = $epoch === null ? $preset[1] : self::epoch($epoch, $text);

            return new self(...$preset);
        }
        $number = '([0-9]{1,18})';
        $rest = "@([^/]+)(?:/{$number}ms)?\\z~";
        $worker = "(?:$number\\+)?$number";
        $swapped = preg_match("~\\A$number/s$number/w$worker$rest", $text, $part, PREG_UNMATCHED_AS_NULL) === 1;
        if ($swapped) {
            [, $time, $sequence, $upper, $lower, $epochText, $unit] = $part;
        } elseif (preg_match("~\\A$number/$worker/$number$rest", $text, $part, PREG_UNMATCHED_AS_NULL) === 1) {
            [, $time, $upper, $lower, $sequence, $epochText, $unit] = $part;
        } else {
            throw self::unknown($text);
        }

        return new self(
            (int) ($unit ?? 1),
            self::epoch((string) $epochText, $text),
            (int) $time,
            (int) $upper + (int) $lower,
            (int) $sequence,
            (int) $upper,
            $swapped,
        );
    }

    /**
     * Splits an ID into its parts.
     *
     * @throws InvalidArgumentException if the ID is negative, or has more bits than the layout
     */
    public function decode(int $id): DecodedId
    {
        if ($id < 0) {
            throw new InvalidArgumentException("$id is negative, so it is no snowflake ID");
        }
        $units = $id >> ($this->workerBits + $this->sequenceBits);
        if ($this->timeBits < 63 && $units >> $this->timeBits !== 0) {
            $bits = $this->timeBits + $this->workerBits + $this->sequenceBits;
            throw new InvalidArgumentException("$id has more than the $bits bits of this layout");
        }
        [$workerAt, $sequenceAt] = $this->shifts();
        $worker = ($id >> $workerAt) & ((1 << $this->workerBits) - 1);
        // A float only if the sum passes the highest integer.
        $unixMs = $this->epochMs + $units * $this->unitMs;

        return new DecodedId(
            \is_int($unixMs) ? $unixMs : \PHP_INT_MAX,
            $worker,
            $this->datacenterBits > 0 ? $worker >> ($this->workerBits - $this->datacenterBits) : null,
            ($id >> $sequenceAt) & ((1 << $this->sequenceBits) - 1),
        );
    }

    /**
     * Puts the parts together, the inverse of {@see self::decode()}.
     *
     * @param int $units the time, in units of `unitMs` since `epochMs`
     *
     * @throws InvalidArgumentException if a part does not fit its bits
     */
    public function compose(int $units, int $worker, int $sequence): int
    {
        foreach (
            [
                'time' => [$units, $this->timeBits],
                'worker' => [$worker, $this->workerBits],
                'sequence' => [$sequence, $this->sequenceBits],
            ] as $name => [$part, $bits]
        ) {
            if ($part < 0 || $part >> $bits !== 0) {
                throw new InvalidArgumentException(
                    "the $name $part does not fit the $bits bits that this layout has for it"
                );
            }
        }
        [$workerAt, $sequenceAt] = $this->shifts();

        return $units << ($this->workerBits + $this->sequenceBits) | $worker << $workerAt | $sequence << $sequenceAt;
    }

    /** @return array{int, int} the places of worker and sequence, counted from the lowest bit */
    private function shifts(): array
    {
        return $this->sequenceAboveWorker ? [0, $this->workerBits] : [$this->sequenceBits, 0];
    }

    /** The form that {@see self::parse()} reads. */
    public function __toString(): string
    {
        $worker = $this->datacenterBits > 0
            ? $this->datacenterBits . '+' . ($this->workerBits - $this->datacenterBits)
            : (string) $this->workerBits;

        $low = $this->sequenceAboveWorker ? "s$this->sequenceBits/w$worker" : "$worker/$this->sequenceBits";

        return "$this->timeBits/$low@$this->epochMs/{$this->unitMs}ms";
    }

    private static function epoch(string $text, string $layout): int
    {
        if (preg_match('/\A0*([0-9]{1,19})\z/', $text, $digits) === 1) {
            $ms = (int) $digits[1];
            // The conversion stops at the highest integer.
            if ((string) $ms === ltrim($digits[1], '0') || $ms === 0) {
                return $ms;
            }
            throw self::unknown($layout);
        }
        $form = '/\A([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{3}))?[Zz])?\z/';
        if (preg_match($form, $text, $part, PREG_UNMATCHED_AS_NULL) !== 1) {
            throw self::unknown($layout);
        }
        [, $year, $month, $day, $hour, $minute, $second, $ms] = array_map('intval', $part);
        if ($year < 1970 || !checkdate($month, $day, $year) || $hour > 23 || $minute > 59 || $second > 59) {
            throw self::unknown($layout);
        }

        return (int) gmmktime($hour, $minute, $second, $month, $day, $year) * 1000 + $ms;
    }

    private static function unknown(string $text): InvalidArgumentException
    {
        return new InvalidArgumentException(
            "layout \"$text\" is neither a preset (leaf, twitter, baidu, js, sonyflake, discord, each with an optional "
            . 'epoch as in baidu@2026-01-01) nor TIME/WORKER/SEQUENCE@EPOCH with an optional unit, as in '
            . '41/10/12@2010-11-04T01:42:54.657Z or 28/22/13@2026-01-01/1000ms, nor '
            . 'TIME/sSEQUENCE/wWORKER@EPOCH, as in 39/s8/w16@2026-01-01/10ms; an epoch is a date in UTC, '
            . 'or milliseconds since 1970'
        );
    }
}
