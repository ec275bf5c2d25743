<?php

declare(strict_types=1);

namespace Leafd\Form;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Internal\FormError;
use Leafd\Internal\Numeral;
use Leafd\Internal\PaddedDigits;

/**
 * Forms of the number alone: `decimal`, `base62`, `base36`, `crockford32`, `padded` and `padded1` to `padded19`, each
 * with an optional prefix as in `ord_base62`. Every ID has exactly one text in each, and no other text is read.
 *
 * None of them hides the number: whoever sees two of them can count.
 */
final class Text
{
    /**
     * The text of an ID.
     *
     * @throws InvalidArgumentException if the ID is negative, or there is no such form
     */
    public static function encode(string $form, int $id): string
    {
        [$prefix, $numeral, $width] = self::form($form);
        FormError::checkId($id);

        return $prefix . ($numeral === null ? PaddedDigits::write($id, $width) : $numeral->encode($id));
    }

    /**
     * The ID of a text.
     *
     * @throws InvalidArgumentException if {@see self::encode()} does not return this text, or there is no such form
     */
    public static function decode(string $form, string $text): int
    {
        [$prefix, $numeral, $width] = self::form($form);
        if (!str_starts_with($text, $prefix)) {
            $equal = strspn($text ^ $prefix, "\0");
            throw $equal === \strlen($text)
                ? FormError::of($text, "it ends within the prefix \"$prefix\"")
                : FormError::character($text, $equal, "the prefix \"$prefix\" is expected");
        }
        $before = \strlen($prefix);

        return $numeral === null ? PaddedDigits::read($text, $before, $width) : $numeral->decode($text, $before);
    }

    /** @return array{string, ?Numeral, int} the prefix, and a numeral or the least number of decimal digits */
    private static function form(string $form): array
    {
        $underscore = strrpos($form, '_');
        $prefix = $underscore === false ? '' : substr($form, 0, $underscore + 1);
        $name = substr($form, \strlen($prefix));
        $numeral = Numeral::named($name);
        $width = $numeral === null ? self::width($name, $form) : 0;
        if ($prefix !== '' && preg_match('/\A[a-z](?:[a-z_]{0,61}[a-z])?_\z/', $prefix) !== 1) {
            throw new InvalidArgumentException(
                'prefix ' . FormError::quote(substr($prefix, 0, -1)) . ': a prefix is 1 to 63 lowercase letters and '
                . 'underscores, and begins and ends with a letter'
            );
        }

        return [$prefix, $numeral, $width];
    }

    private static function width(string $name, string $form): int
    {
        if ($name === 'decimal') {
            return 1;
        }
        if (!str_starts_with($name, 'padded')) {
            throw new InvalidArgumentException(
                'there is no text form ' . FormError::quote($form) . '; there are decimal, base62, base36, crockford32 '
                . 'and padded[N], each with an optional prefix as in ord_base62. For UUIDs and ObjectIDs, use '
                . 'Snowflakes; for numbers of a day, Day'
            );
        }
        if (preg_match('/\Apadded([1-9]|1[0-9])?\z/', $name, $digits) !== 1) {
            throw new InvalidArgumentException(
                'form ' . FormError::quote($form) . ': a number can be padded to 1 to ' . PaddedDigits::MAX
                . ' digits, as in padded12'
            );
        }

        return (int) ($digits[1] ?? PaddedDigits::MAX);
    }
}
