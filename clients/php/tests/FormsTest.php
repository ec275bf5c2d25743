<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Exception\InvalidArgumentException;
use Leafd\Form\Day;
use Leafd\Form\Snowflakes;
use Leafd\Form\Text;
use Leafd\Form\Uuid5;
use Leafd\Layout;
use PHPUnit\Framework\TestCase;

/** What the vectors of the forms do not say: the words of errors, bounds, and any layout. */
final class FormsTest extends TestCase
{
    private const FLEET = '4be1f0a37c';
    private const SNOWFLAKE_FORMS = ['uuid7', 'uuid8', 'uuid1', 'objectid'];

    /** Refused as a wrong argument, with all of these words. */
    private static function assertRefuses(callable $call, string ...$words): void
    {
        try {
            $result = $call();
        } catch (InvalidArgumentException $e) {
            self::assertFalse($e->isTemporary());
            self::assertLessThan(600, \strlen($e->getMessage()));
            foreach ($words as $word) {
                self::assertStringContainsString($word, $e->getMessage());
            }

            return;
        }
        self::fail(var_export($result, true));
    }

    public function testErrorsNameTheTextItsFirstWrongCharacterAndTheRemedy(): void
    {
        foreach (
            [
                ['decimal', '12x4y', '"12x4y"', 'character 3 is "x"', 'a decimal digit is expected'],
                ['decimal', '017', 'character 1 is "0"', 'one zero too many'],
                ['ord_padded4', 'ord_17', '2 digits instead of at least 4'],
                ['base62', '0000000000é', 'character 11 is "é"', 'a letter of a to z or A to Z'],
                ['base62', '0000000000🍃', 'character 11 is "🍃"'],
                ['base62', "0000000000\xFF", "character 11 is \"\u{FFFD}\""],
                ['base62', '0000', '4 characters instead of 11'],
                ['base36', '000000000000A', 'character 13 is "A"', 'write lowercase letters'],
                ['base36', 'zzzzzzzzzzzzz', 'above 2^63 - 1'],
                ['crockford32', '000000000000OH', 'character 13 is "O"', 'write the digit 0'],
                ['crockford32', '00000000000lHH', 'character 12 is "l"', 'write the digit 1'],
                ['crockford32', '000000000000hH', 'character 13 is "h"', 'write capital letters'],
                ['crockford32', '000000000000-H', 'character 13 is "-"', 'other than I, L, O and U'],
                ['crockford32', '000000000000HL', 'character 14 is "L"', 'a check symbol is expected'],
                ['crockford32', '000000000000HG', 'the check symbol is "G", but "H" belongs', 'mistyped'],
                ['crockford32', '0000000000000', '13 characters instead of 14'],
                ['crockford32', '000000000000HHé', '15 characters instead of 14'],
                ['ord_base62', 'orx_0000000000H', 'character 3 is "x"', 'the prefix "ord_" is expected'],
                ['ord_base62', 'ord', 'it ends within the prefix "ord_"'],
                ['ord_base62', '', 'it ends within the prefix "ord_"'],
                ['ord_base62', 'ord_000000000-H', 'character 14 is "-"'],
            ] as $one
        ) {
            [$form, $text] = $one;
            self::assertRefuses(static fn () => Text::decode($form, $text), ...\array_slice($one, 2));
        }
        foreach (
            [
                ['2026x122-000017', 'character 5 is "x"'],
                ['20261122_000017', 'character 9 is "_": a hyphen is expected'],
                ['20260229-000017', '20260229 is no date'],
                ['20261122-0000é7', 'character 14 is "é"'],
                ['2026112', 'a date, a hyphen and a number are expected'],
            ] as [$text, $word]
        ) {
            self::assertRefuses(static fn () => Day::parse($text), "\"$text\"", $word);
        }
    }

    public function testALongTextTakesNoTimeAndAnErrorShowsOnlyItsBeginning(): void
    {
        $snowflakes = new Snowflakes(Layout::leaf(), self::FLEET);
        foreach ([str_repeat('0', 1_000_000), str_repeat('🍃', 250_000), str_repeat("\xFF", 1_000_000)] as $long) {
            foreach (['decimal', 'base62', 'crockford32', 'padded'] as $form) {
                self::assertRefuses(static fn () => Text::decode($form, $long), '…');
            }
            foreach (self::SNOWFLAKE_FORMS as $form) {
                self::assertRefuses(static fn () => $snowflakes->decode($form, $long), '…');
            }
            self::assertRefuses(static fn () => Text::encode($long, 1), '…');
            self::assertRefuses(static fn () => Day::parse($long), '…');
            self::assertRefuses(static fn () => Day::at(0, $long), '…');
            self::assertRefuses(static fn () => new Snowflakes(Layout::leaf(), $long), '…');
        }
    }

    public function testFormsThatDoNotExistAreRefused(): void
    {
        foreach (['', 'base64', 'Base62', 'uuid7', 'dated', 'ord-base62', 'ord_', 'base62_', "base62\n"] as $form) {
            self::assertRefuses(static fn () => Text::encode($form, 1), 'there is no text form', 'Snowflakes');
        }
        foreach (['padded0', 'padded20', 'padded08', 'padded+8', 'padded-1', 'padded1 ', "padded8\n"] as $form) {
            self::assertRefuses(static fn () => Text::encode($form, 1), '1 to 19 digits');
        }
        foreach (['', '_', '_a', 'a_', 'Ord', 'ord1', 'örd', str_repeat('a', 64)] as $prefix) {
            self::assertRefuses(static fn () => Text::encode("{$prefix}_base62", 1), '1 to 63 lowercase letters');
        }
        $longest = str_repeat('a', 63);
        self::assertSame("{$longest}_1", Text::encode("{$longest}_decimal", 1));
        $snowflakes = new Snowflakes(Layout::leaf(), self::FLEET);
        self::assertRefuses(static fn () => $snowflakes->encode('base62', 1), 'uuid7, uuid8, uuid1 and objectid');
        $hash = 'de294177-21a1-5baa-95bd-bdfa16fa7a9e';
        self::assertRefuses(static fn () => $snowflakes->decode('uuid5', $hash), 'Uuid5::hash');
        self::assertRefuses(static fn () => $snowflakes->idOf($hash), 'nothing turns it back');
    }

    public function testNegativeNumbersAreNoIds(): void
    {
        $snowflakes = new Snowflakes(Layout::leaf(), self::FLEET);
        foreach ([-1, \PHP_INT_MIN] as $id) {
            self::assertRefuses(static fn () => Text::encode('base62', $id), "$id is negative");
            self::assertRefuses(static fn () => (new Day(2026, 11, 22))->text($id), "$id is negative");
            self::assertRefuses(static fn () => Uuid5::hash(self::FLEET, 'orders', $id), "$id is negative");
            foreach (self::SNOWFLAKE_FORMS as $form) {
                self::assertRefuses(static fn () => $snowflakes->encode($form, $id), "$id is negative");
            }
        }
    }

    public function testATimeIsOfTheDayThatItsZoneHas(): void
    {
        foreach (
            ['', 'utc', 'Z', '+8:00', '+08:60', '08:00', '+0800', '+18:01', '-19:00', '+08:00 ', "+08:00\n"] as $zone
        ) {
            self::assertRefuses(static fn () => Day::at(0, $zone), 'write UTC');
        }
        foreach (
            [
                [86_399 - 18 * 3600, '+18:00', '19700101'],
                [86_400 - 18 * 3600, '+18:00', '19700102'],
                [86_400 + 18 * 3600 - 1, '-18:00', '19700101'],
                [86_400 + 18 * 3600, '-18:00', '19700102'],
                [-1, 'UTC', '19700101'],
                [253_402_300_799, '+18:00', '99991231'],
                [253_402_300_800, 'UTC', '99991231'],
                [253_402_214_400 + 18 * 3600 - 1, '-18:00', '99991230'],
            ] as [$seconds, $zone, $day]
        ) {
            self::assertSame($day, (string) Day::at($seconds * 1000, $zone));
            self::assertSame($day, (string) Day::at(new \DateTimeImmutable("@$seconds"), $zone));
        }
        self::assertSame('19700101', (string) Day::at(\PHP_INT_MIN, '-18:00'));
        self::assertSame('99991231', (string) Day::at(\PHP_INT_MAX, '+18:00'));
    }

    public function testADayIsADateOfTheCalendar(): void
    {
        $day = new Day(2028, 2, 29);
        self::assertSame([2028, 2, 29, '20280229'], [$day->year, $day->month, $day->dayOfMonth, (string) $day]);
        foreach ([[2027, 2, 29], [1969, 12, 31], [70, 1, 1], [10_000, 1, 1], [2026, 13, 1], [2026, 1, 0]] as $date) {
            self::assertRefuses(static fn () => new Day(...$date), 'is no date');
        }
    }

    public function testWhatAnotherInstallationMadeIsRefused(): void
    {
        $here = new Snowflakes(Layout::leaf(), self::FLEET);
        $there = new Snowflakes(Layout::leaf(), '0000000001');
        foreach (self::SNOWFLAKE_FORMS as $form) {
            $text = $there->encode($form, 1);
            self::assertRefuses(static fn () => $here->decode($form, $text), $text, self::FLEET, 'another installation');
        }
        $wrong = ['', '4be1f0a37', '4be1f0a37c0', '4BE1F0A37C', '4be1f0a37g', '+be1f0a37c', '4be1f0a37é', "4be1f0a37c\n"];
        foreach ($wrong as $fleet) {
            self::assertRefuses(static fn () => new Snowflakes(Layout::leaf(), $fleet), '10 lowercase hexadecimal digits');
            self::assertRefuses(static fn () => Uuid5::hash($fleet, 'orders', 1), '10 lowercase hexadecimal digits');
        }
        foreach (
            [
                ['01a1fcd4-5c07-4000-8000-474be1f0a37c', 'version 4'],
                ['01a1fcd4-5c07-7000-c000-474be1f0a37c', 'character 20 is "c"'],
                ['01a1fcd4-5c07-7000-8000-474be1f0a37cé', 'character 37 is "é"'],
                ['01a1fcd4x5c07-7000-8000-474be1f0a37c', 'character 9 is "x": a hyphen is expected'],
                ['01A1fcd4-5c07-7000-8000-474be1f0a37c', 'character 3 is "A": write lowercase letters'],
            ] as [$uuid, $word]
        ) {
            self::assertRefuses(static fn () => $here->idOf($uuid), $word);
        }
    }

    public function testAnyLayoutGivesFormsThatTurnBackOrNone(): void
    {
        mt_srand(1);
        $made = array_fill_keys(self::SNOWFLAKE_FORMS, 0);
        for ($round = 0; $round < 5_000; ++$round) {
            $sequenceBits = mt_rand(1, 30);
            $workerBits = mt_rand(0, 62 - $sequenceBits);
            $timeBits = mt_rand(1, 63 - $sequenceBits - $workerBits);
            $layout = new Layout(
                unitMs: [1, 10, 1000][mt_rand(0, 2)],
                epochMs: self::random() >> mt_rand(0, 62),
                timeBits: $timeBits,
                workerBits: $workerBits,
                sequenceBits: $sequenceBits,
                sequenceAboveWorker: mt_rand(0, 1) === 1,
            );
            $snowflakes = new Snowflakes($layout, self::FLEET);
            $id = self::random() >> (63 - $timeBits - $workerBits - $sequenceBits) >> mt_rand(0, 62);
            foreach (self::SNOWFLAKE_FORMS as $form) {
                try {
                    $text = $snowflakes->encode($form, $id);
                } catch (InvalidArgumentException $e) {
                    self::assertStringContainsString('no room', $e->getMessage());
                    continue;
                }
                ++$made[$form];
                self::assertSame($id, $snowflakes->decode($form, $text), "$layout $form $text");
            }
        }
        self::assertGreaterThan(100, min($made));
    }

    public function testAnyDamagedUuidIsOfOneSnowflakeOrNone(): void
    {
        mt_srand(2);
        $read = 0;
        foreach (['leaf', 'baidu@2026-01-01', 'js', 'sonyflake', '20/30/13@2026-01-01/1000ms'] as $name) {
            $snowflakes = new Snowflakes(Layout::parse($name), self::FLEET);
            for ($round = 0; $round < 2_000; ++$round) {
                $form = self::SNOWFLAKE_FORMS[$round % 4];
                $text = $snowflakes->encode($form, self::random() >> 20);
                $text[mt_rand(0, \strlen($text) - 1)] = dechex(mt_rand(0, 15));
                try {
                    $id = $snowflakes->decode($form, $text);
                } catch (InvalidArgumentException) {
                    continue;
                }
                ++$read;
                self::assertSame($text, $snowflakes->encode($form, $id));
            }
        }
        self::assertGreaterThan(1_000, $read);
    }

    /** 63 bits that are the same in every run. */
    private static function random(): int
    {
        return mt_rand(0, 0x7FFF_FFFF) << 32 | mt_rand(0, 0xFFFF) << 16 | mt_rand(0, 0xFFFF);
    }
}
