<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Exception\InvalidArgumentException;

/**
 * Decimal digits with zeros in front: at least so many, and more only if the number needs them.
 *
 * @internal
 */
final class PaddedDigits
{
    /** How many digits the highest ID has. */
    public const MAX = 19;

    public static function write(int $id, int $width): string
    {
        return str_pad((string) $id, $width, '0', \STR_PAD_LEFT);
    }

    /**
     * @param int $prefix how many characters precede the digits
     *
     * @throws InvalidArgumentException
     */
    public static function read(string $text, int $prefix, int $width): int
    {
        $digits = substr($text, $prefix);
        $right = strspn($digits, '0123456789');
        if ($right < \strlen($digits)) {
            throw FormError::character($text, $prefix + $right, 'a decimal digit is expected');
        }
        if ($right < $width) {
            throw FormError::of($text, "$right digits instead of at least $width");
        }
        if ($right > $width && $digits[0] === '0') {
            throw FormError::character($text, $prefix, 'it is one zero too many');
        }
        // Compared as texts, since the conversion stops at the highest integer.
        if ($right > self::MAX || $right === self::MAX && strcmp($digits, (string) \PHP_INT_MAX) > 0) {
            throw FormError::tooHigh($text);
        }

        return (int) $digits;
    }
}
