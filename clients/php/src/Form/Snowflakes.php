<?php

declare(strict_types=1);

namespace Leafd\Form;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Internal\FormError;
use Leafd\Internal\Hex;
use Leafd\Layout;

/**
 * Turns the snowflake IDs of one installation into UUIDs and ObjectIDs, and back. Every ID has exactly one text in each
 * form, and no other text is read.
 *
 * None of these forms hides the number: whoever sees two of them can count.
 */
final class Snowflakes
{
    /** How many bits below the milliseconds UUIDs of version 7 and ObjectIDs have room for. */
    private const LOW_BITS = 34;

    /** How many bits of the worker ID a UUID of version 1 has outside of its time. */
    private const NODE_WORKER_BITS = 21;

    /** 1970-01-01 in units of 100 ns since 1582-10-15. */
    private const GREGORIAN = 122_192_928_000_000_000;

    private const TICKS_PER_MS = 10_000;

    /** 2^60 / TICKS_PER_MS: no UUID of version 1 has room for this time. A later one could become a float. */
    private const TOO_LATE_MS_OF_1 = 115_292_150_460_684;

    private const FLEET_MASK = (1 << 40) - 1;

    private readonly int $fleetBits;

    /** How many bits are below the time. */
    private readonly int $lowBits;

    /**
     * @param Layout $layout the layout, which the daemon's status names
     * @param string $fleet  the fleet ID: 10 lowercase hexadecimal digits, the same on all hosts of the installation
     *
     * @throws InvalidArgumentException if the fleet ID is none
     */
    public function __construct(
        public readonly Layout $layout,
        public readonly string $fleet,
    ) {
        $this->fleetBits = Hex::fleet($fleet);
        $this->lowBits = $layout->workerBits + $layout->sequenceBits;
    }

    /**
     * The text of a snowflake ID as `uuid7`, `uuid8`, `uuid1` or `objectid`.
     *
     * @throws InvalidArgumentException if there is no such form, or it has no room for this ID
     */
    public function encode(string $form, int $id): string
    {
        return match ($form) {
            'uuid7' => $this->uuid7($id),
            'uuid8' => $this->uuid8($id),
            'uuid1' => $this->uuid1($id),
            'objectid' => $this->objectId($id),
            default => throw self::unknownForm($form),
        };
    }

    /**
     * The snowflake ID of such a text.
     *
     * @throws InvalidArgumentException if it is not the text that {@see self::encode()} returns for this form
     */
    public function decode(string $form, string $text): int
    {
        $expected = match ($form) {
            'objectid' => null,
            'uuid7' => 7,
            'uuid8' => 8,
            'uuid1' => 1,
            default => throw self::unknownForm($form),
        };
        if ($expected === null) {
            return $this->idOfObjectId($text);
        }
        [$version] = Hex::readUuid($text);
        if ($version !== $expected) {
            throw FormError::of($text, "it is a UUID of version $version, not $expected");
        }

        return $this->idOf($text);
    }

    /**
     * Version 7: sorts as the snowflakes do.
     *
     * @throws InvalidArgumentException
     */
    public function uuid7(int $id): string
    {
        [$ms, $low] = $this->split($id);

        return Hex::uuid(7, $ms, $low >> 22, ($low & 0x3F_FFFF) << 40 | $this->fleetBits);
    }

    /**
     * Version 8: the number itself, which needs no layout. Sorts as the numbers do.
     *
     * @throws InvalidArgumentException
     */
    public function uuid8(int $id): string
    {
        FormError::checkId($id);

        return Hex::uuid(8, $id >> 15, $id >> 3 & 0xFFF, ($id & 7) << 59 | $this->fleetBits << 19);
    }

    /**
     * Version 1: time in 100 ns, clock sequence and node. Does not sort as the snowflakes do.
     *
     * @throws InvalidArgumentException
     */
    public function uuid1(int $id): string
    {
        $parts = $this->layout->decode($id);
        $this->checkRoomOf1();
        $excess = $parts->worker >> self::NODE_WORKER_BITS << $this->layout->sequenceBits;
        $ticks = min($parts->unixMs, self::TOO_LATE_MS_OF_1) * self::TICKS_PER_MS + self::GREGORIAN + $excess
            + $parts->sequence;
        if ($ticks >> 60 !== 0) {
            throw new InvalidArgumentException(
                "a UUID of version 1 has no room for the time of $id, which has more than 60 bits of 100 ns"
            );
        }
        // The one bit marks a node that is no network card.
        $node = ($parts->worker & 0x7F) << 41 | 1 << 40 | $this->fleetBits;
        $clock = $parts->worker >> 7 & 0x3FFF;

        return Hex::uuid(1, ($ticks & 0xFFFF_FFFF) << 16 | $ticks >> 32 & 0xFFFF, $ticks >> 48, $clock << 48 | $node);
    }

    /**
     * An ObjectID of MongoDB: sorts as the snowflakes do, until 2106.
     *
     * @throws InvalidArgumentException
     */
    public function objectId(int $id): string
    {
        [$ms, $low] = $this->split($id);
        $seconds = intdiv($ms, 1000);
        if ($seconds >> 32 !== 0) {
            throw new InvalidArgumentException("an ObjectID has no room for the time of $id, which is after 2106");
        }

        return sprintf(
            '%08x%08x%08x',
            $seconds,
            $ms % 1000 << 22 | $low >> 12,
            ($low & 0xFFF) << 20 | $this->fleetBits >> 20,
        );
    }

    /**
     * The snowflake ID of a UUID of version 1, 7 or 8.
     *
     * @throws InvalidArgumentException if it is not one that this class makes for this installation
     */
    public function idOf(string $uuid): int
    {
        [$version, $hasVariant, $a, $b, $c] = Hex::readUuid($uuid);
        if ($version === 5) {
            throw FormError::of($uuid, 'a UUID of version 5 is a hash: nothing turns it back into an ID');
        }
        if (!\in_array($version, [1, 7, 8], true)) {
            throw FormError::of($uuid, "it is a UUID of version $version, not 1, 7 or 8");
        }
        if (!$hasVariant) {
            throw FormError::character($uuid, 19, 'the variant of RFC 9562 has 8, 9, a or b here');
        }
        $fleet = ($version === 8 ? $c >> 19 : $c) & self::FLEET_MASK;
        if ($fleet !== $this->fleetBits) {
            $found = sprintf('%010x', $fleet);
            throw FormError::of(
                $uuid,
                "it has the fleet ID $found, and this is $this->fleet: another installation made it",
            );
        }
        if ($version === 8 && ($c & 0x7_FFFF) !== 0) {
            throw self::foreign($uuid, 'its last 19 bits are not zero');
        }

        return match ($version) {
            1 => $this->idOf1($uuid, $b << 48 | ($a & 0xFFFF) << 32 | $a >> 16, $c),
            7 => $this->join($uuid, $a, $b << 22 | $c >> 40),
            8 => $a << 15 | $b << 3 | $c >> 59,
        };
    }

    /**
     * The snowflake ID of an ObjectID.
     *
     * @throws InvalidArgumentException if it is not one that this class makes for this installation
     */
    public function idOfObjectId(string $text): int
    {
        [$seconds, $middle, $last] = Hex::readObjectId($text);
        if (($last & 0xF_FFFF) !== $this->fleetBits >> 20) {
            throw FormError::of($text, "it has another fleet ID than $this->fleet: another installation made it");
        }
        $ms = $middle >> 22;
        if ($ms > 999) {
            throw self::foreign($text, 'it has more than 999 milliseconds');
        }

        return $this->join($text, $seconds * 1000 + $ms, ($middle & 0x3F_FFFF) << 12 | $last >> 20);
    }

    /** @param int $rest the lower 62 bits */
    private function idOf1(string $text, int $ticks, int $rest): int
    {
        $this->checkRoomOf1();
        if (($rest >> 40 & 1) === 0) {
            throw self::foreign($text, 'its node may be a network card');
        }
        $layout = $this->layout;
        $since = $ticks - self::GREGORIAN - min($layout->epochMs, self::TOO_LATE_MS_OF_1) * self::TICKS_PER_MS;
        if ($since < 0) {
            throw self::foreign($text, 'its time is before the epoch');
        }
        $perUnit = $layout->unitMs * self::TICKS_PER_MS;
        $step = $since % $perUnit;
        $excess = $step >> $layout->sequenceBits;
        $worker = $excess << self::NODE_WORKER_BITS | $rest >> 48 << 7 | $rest >> 41 & 0x7F;
        try {
            return $layout->compose(intdiv($since, $perUnit), $worker, $step & ((1 << $layout->sequenceBits) - 1));
        } catch (InvalidArgumentException $e) {
            throw self::foreign($text, $e->getMessage());
        }
    }

    /** Each time unit needs enough steps of 100 ns for its sequence numbers. */
    private function checkRoomOf1(): void
    {
        $excessBits = max($this->layout->workerBits - self::NODE_WORKER_BITS, 0);
        if (1 << ($excessBits + $this->layout->sequenceBits) > $this->layout->unitMs * self::TICKS_PER_MS) {
            throw new InvalidArgumentException(
                "a UUID of version 1 has no room for the layout $this->layout: its time unit has too few steps of "
                . '100 ns'
            );
        }
    }

    /**
     * How many bits below the time have no room in LOW_BITS. They are added to the milliseconds, of which a time unit
     * has enough that mean nothing.
     */
    private function excessBits(): int
    {
        $bits = max($this->lowBits - self::LOW_BITS, 0);
        if (1 << $bits > $this->layout->unitMs) {
            throw new InvalidArgumentException(
                "UUIDs of version 7 and ObjectIDs have no room for the layout $this->layout: worker and sequence have "
                . 'too many bits'
            );
        }

        return $bits;
    }

    /** @return array{int, int} the time in milliseconds, at most 48 bits, and the LOW_BITS below it */
    private function split(int $id): array
    {
        $this->excessBits();
        $start = $this->layout->decode($id)->unixMs;
        $low = $id & ((1 << $this->lowBits) - 1);
        // Both, since the sum could become a float.
        if ($start >> 48 !== 0 || ($start + ($low >> self::LOW_BITS)) >> 48 !== 0) {
            throw new InvalidArgumentException(
                "UUIDs of version 7 and ObjectIDs have no room for the time of $id, which has more than 48 bits of "
                . 'milliseconds'
            );
        }

        return [$start + ($low >> self::LOW_BITS), $low & ((1 << self::LOW_BITS) - 1)];
    }

    /** The inverse of `split`. */
    private function join(string $text, int $ms, int $low): int
    {
        $excessBits = $this->excessBits();
        $layout = $this->layout;
        $since = $ms - $layout->epochMs;
        if ($since < 0) {
            throw self::foreign($text, 'its time is before the epoch');
        }
        $units = intdiv($since, $layout->unitMs);
        $excess = $since % $layout->unitMs;
        if ($units >> $layout->timeBits !== 0) {
            throw self::foreign($text, 'its time is past the end of the layout');
        }
        if ($excess >> $excessBits !== 0) {
            throw self::foreign($text, 'its time lies within a time unit');
        }
        $all = $excess << self::LOW_BITS | $low;
        if ($all >> $this->lowBits !== 0) {
            throw self::foreign($text, 'it has more bits for worker and sequence');
        }

        return $units << $this->lowBits | $all;
    }

    private static function foreign(string $text, string $why): InvalidArgumentException
    {
        return FormError::of($text, "no snowflake ID of this layout becomes it: $why");
    }

    private static function unknownForm(string $form): InvalidArgumentException
    {
        if ($form === 'uuid5') {
            return new InvalidArgumentException(
                'uuid5 is no form of a snowflake, but a hash of an ID of a tag: use Uuid5::hash'
            );
        }

        return new InvalidArgumentException(
            'there is no form ' . FormError::quote($form) . ' of a snowflake; there are uuid7, uuid8, uuid1 and '
            . 'objectid'
        );
    }
}
