<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\InvalidArgumentException;

/**
 * Lowercase hexadecimal digits: the fleet ID, and UUIDs and ObjectIDs as fields.
 *
 * @internal
 */
final class Hex
{
    private const DIGITS = '0123456789abcdef';
    private const UUID_LENGTH = 36;
    private const OBJECT_ID_LENGTH = 24;
    private const HYPHENS = [8, 13, 18, 23];

    /** @return int the 40 bits of a fleet ID */
    public static function fleet(string $text): int
    {
        $remedy = 'a fleet ID is 10 lowercase hexadecimal digits, such as 4be1f0a37c';
        $right = strspn($text, self::DIGITS);
        if ($right < \strlen($text)) {
            throw FormError::character($text, $right, self::hint($text[$right]) . "; $remedy");
        }
        if ($right !== 10) {
            throw FormError::of($text, "it has $right characters; $remedy");
        }

        return (int) hexdec($text);
    }

    /** The UUID of 48, 12 and 62 bits, with version and variant between them. */
    public static function uuid(int $version, int $a, int $b, int $c): string
    {
        return sprintf(
            '%08x-%04x-%04x-%04x-%012x',
            $a >> 16,
            $a & 0xFFFF,
            $version << 12 | $b,
            0b10 << 14 | $c >> 48,
            $c & 0xFFFF_FFFF_FFFF,
        );
    }

    /**
     * @return array{int, bool, int, int, int} the version, whether it has the variant of RFC 9562, and the 48, 12 and
     *                                         62 bits around both
     *
     * @throws InvalidArgumentException
     */
    public static function readUuid(string $text): array
    {
        $end = min(\strlen($text), self::UUID_LENGTH);
        for ($at = 0; $at < $end; ++$at) {
            $isHyphen = \in_array($at, self::HYPHENS, true);
            if ($isHyphen ? $text[$at] !== '-' : !str_contains(self::DIGITS, $text[$at])) {
                throw FormError::character($text, $at, $isHyphen ? 'a hyphen is expected' : self::hint($text[$at]));
            }
        }
        self::checkLength($text, self::UUID_LENGTH, 'a UUID');
        [$first, $second, $third, $fourth, $last] = array_map(
            static fn (string $digits): int => (int) hexdec($digits),
            explode('-', $text),
        );

        return [
            $third >> 12,
            $fourth >> 14 === 0b10,
            $first << 16 | $second,
            $third & 0xFFF,
            ($fourth & 0x3FFF) << 48 | $last,
        ];
    }

    /**
     * @return array{int, int, int} the three times 32 bits of an ObjectID
     *
     * @throws InvalidArgumentException
     */
    public static function readObjectId(string $text): array
    {
        $right = strspn($text, self::DIGITS, 0, self::OBJECT_ID_LENGTH);
        if ($right < min(\strlen($text), self::OBJECT_ID_LENGTH)) {
            throw FormError::character($text, $right, self::hint($text[$right]));
        }
        self::checkLength($text, self::OBJECT_ID_LENGTH, 'an ObjectID');

        return [
            (int) hexdec(substr($text, 0, 8)),
            (int) hexdec(substr($text, 8, 8)),
            (int) hexdec(substr($text, 16)),
        ];
    }

    private static function checkLength(string $text, int $length, string $what): void
    {
        if (\strlen($text) > $length) {
            throw FormError::character($text, $length, "$what ends before it");
        }
        if (\strlen($text) < $length) {
            throw FormError::of($text, \strlen($text) . " characters instead of the $length of $what");
        }
    }

    /** What to write instead of a character where a digit is expected. */
    private static function hint(string $found): string
    {
        return $found >= 'A' && $found <= 'F' ? 'write lowercase letters' : 'a hexadecimal digit is expected';
    }
}
