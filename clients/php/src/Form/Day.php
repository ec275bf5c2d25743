<?php

declare(strict_types=1);

namespace Leafd\Form;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Internal\FormError;
use Leafd\Internal\PaddedDigits;

/**
 * A date whose IDs have a tag of their own, for numbers that start over every day, as in `20261122-000017`.
 *
 * Read the clock once, and take the tag and the text from the same `Day`: then the date in the text is the one that the
 * number belongs to, even at midnight.
 */
final class Day
{
    private const SECONDS = 86_400;

    /** 9999-12-31, counted from 1970-01-01. */
    private const LAST = 2_932_896;

    /** How many digits the number has at least. */
    private const DIGITS = 6;

    /**
     * A date of the calendar, from 1970-01-01 to 9999-12-31.
     *
     * @throws InvalidArgumentException if there is no such date
     */
    public function __construct(
        public readonly int $year,
        public readonly int $month,
        public readonly int $dayOfMonth,
    ) {
        if ($year < 1970 || $year > 9999 || !checkdate($month, $dayOfMonth, $year)) {
            throw new InvalidArgumentException("$year-$month-$dayOfMonth is no date from 1970-01-01 to 9999-12-31");
        }
    }

    /**
     * The date at a time. A time before 1970 or after 9999 has the first or the last day.
     *
     * @param \DateTimeInterface|int $time milliseconds since 1970, or a time, whose own zone does not matter
     * @param string                 $zone `UTC`, or a distance such as `+08:00` or `-03:30`, at most 18 hours
     *
     * @throws InvalidArgumentException if the zone is none
     */
    public static function at(\DateTimeInterface|int $time, string $zone): self
    {
        $ahead = self::secondsAhead($zone);
        $seconds = \is_int($time) ? intdiv($time, 1000) : $time->getTimestamp();
        // No zone is a whole day ahead, so what is before 1970 in UTC is of the first day at the latest. The bounds
        // also keep the sum an integer.
        $seconds = min(max($seconds, 0), (self::LAST + 2) * self::SECONDS) + $ahead;
        $number = min(intdiv(max($seconds, 0), self::SECONDS), self::LAST);
        [$year, $month, $dayOfMonth] = explode('-', gmdate('Y-m-d', $number * self::SECONDS));

        return new self((int) $year, (int) $month, (int) $dayOfMonth);
    }

    /**
     * The day and the ID of a text.
     *
     * @return array{self, int}
     *
     * @throws InvalidArgumentException if it is not the text that {@see self::text()} returns
     */
    public static function parse(string $text): array
    {
        $example = '20261122-000017';
        $digits = strspn($text, '0123456789', 0, 8);
        if ($digits < min(\strlen($text), 8)) {
            throw FormError::character($text, $digits, "a date of 8 digits is expected first, as in $example");
        }
        if (\strlen($text) <= 8) {
            throw FormError::of($text, "a date, a hyphen and a number are expected, as in $example");
        }
        if ($text[8] !== '-') {
            throw FormError::character($text, 8, 'a hyphen is expected');
        }
        try {
            $day = new self((int) substr($text, 0, 4), (int) substr($text, 4, 2), (int) substr($text, 6, 2));
        } catch (InvalidArgumentException) {
            throw FormError::of($text, substr($text, 0, 8) . ' is no date from 19700101 to 99991231');
        }

        return [$day, PaddedDigits::read($text, 9, self::DIGITS)];
    }

    /** The tag of this day's IDs, as in `invoices-20261122`. Ask for an ID of it, and pass the ID to `text()`. */
    public function tag(string $base): string
    {
        return "$base-$this";
    }

    /**
     * The text of an ID of this day's tag, as in `20261122-000017`.
     *
     * @throws InvalidArgumentException if the ID is negative
     */
    public function text(int $id): string
    {
        FormError::checkId($id);

        return "$this-" . PaddedDigits::write($id, self::DIGITS);
    }

    /** The date, as in `20261122`. */
    public function __toString(): string
    {
        return sprintf('%04d%02d%02d', $this->year, $this->month, $this->dayOfMonth);
    }

    /** How many seconds a zone is ahead of UTC. */
    private static function secondsAhead(string $zone): int
    {
        if ($zone === 'UTC') {
            return 0;
        }
        $isZone = preg_match('/\A([+-])([0-9]{2}):([0-5][0-9])\z/', $zone, $part) === 1;
        $minutes = $isZone ? (int) $part[2] * 60 + (int) $part[3] : 0;
        if (!$isZone || $minutes > 18 * 60) {
            throw new InvalidArgumentException(
                'time zone ' . FormError::quote($zone) . ': write UTC, or hours and minutes from it, at most 18 hours, '
                . 'such as +08:00 or -03:30'
            );
        }

        return ($part[1] === '-' ? -$minutes : $minutes) * 60;
    }
}
