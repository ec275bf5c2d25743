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

/** The forms against `protocol/forms.json`, which another client made from the page of the forms. */
final class FormVectorsTest extends TestCase
{
    /** @return list<array<string, mixed>> */
    private static function vectors(string $list): array
    {
        $file = (string) file_get_contents(__DIR__ . '/../../../protocol/forms.json');
        $vectors = json_decode($file, true, 512, JSON_THROW_ON_ERROR)[$list];
        self::assertGreaterThanOrEqual(20, \count($vectors));

        return $vectors;
    }

    public function testTextsAreThoseOfTheVectorsInBothDirections(): void
    {
        foreach (self::vectors('texts') as ['form' => $form, 'id' => $id, 'text' => $text]) {
            self::assertSame($text, Text::encode($form, (int) $id));
            self::assertSame((int) $id, Text::decode($form, $text));
        }
    }

    public function testTextsThatTheVectorsRefuseAreRefused(): void
    {
        foreach (self::vectors('refused') as ['form' => $form, 'text' => $text]) {
            try {
                $form === 'dated' ? Day::parse($text) : Text::decode($form, $text);
                self::fail("$form \"$text\"");
            } catch (InvalidArgumentException $e) {
                self::assertNotSame('', $e->getMessage());
            }
        }
    }

    public function testDaysAreThoseOfTheVectorsInBothDirections(): void
    {
        foreach (self::vectors('days') as $vector) {
            $time = (new \DateTimeImmutable('@' . intdiv($vector['unix_ms'], 1000)))
                ->setTimezone(new \DateTimeZone('Asia/Tokyo'));
            foreach ([$vector['unix_ms'], $time] as $at) {
                $day = Day::at($at, $vector['zone']);
                self::assertSame($vector['tag'], $day->tag('invoices'));
                self::assertSame($vector['text'], $day->text((int) $vector['id']));
                self::assertEquals([$day, (int) $vector['id']], Day::parse($vector['text']));
            }
        }
    }

    public function testUuidsAndObjectIdsAreThoseOfTheVectorsInBothDirections(): void
    {
        foreach (self::vectors('snowflakes') as $vector) {
            $layout = Layout::parse($vector['layout']);
            self::assertSame($vector['written'], (string) $layout);
            $snowflakes = new Snowflakes($layout, $vector['fleet']);
            foreach ($vector['ids'] as $forms) {
                $id = (int) $forms['id'];
                unset($forms['id']);
                self::assertSame(['uuid7', 'uuid8', 'uuid1', 'objectid'], array_keys($forms));
                foreach ($forms as $form => $text) {
                    if ($text === null) {
                        try {
                            self::fail($snowflakes->encode($form, $id));
                        } catch (InvalidArgumentException $e) {
                            self::assertStringContainsString('no room', $e->getMessage());
                        }
                        continue;
                    }
                    self::assertSame($text, $snowflakes->encode($form, $id));
                    self::assertSame($id, $snowflakes->decode($form, $text));
                    $read = $form === 'objectid' ? $snowflakes->idOfObjectId($text) : $snowflakes->idOf($text);
                    self::assertSame($id, $read);
                }
            }
        }
    }

    public function testUuidsAndObjectIdsThatNoSnowflakeBecomesAreRefused(): void
    {
        foreach (self::vectors('refused_snowflakes') as $vector) {
            $snowflakes = new Snowflakes(Layout::parse($vector['layout']), $vector['fleet']);
            try {
                $snowflakes->decode($vector['form'], $vector['text']);
                self::fail("{$vector['form']} \"{$vector['text']}\"");
            } catch (InvalidArgumentException $e) {
                self::assertStringContainsString($vector['text'], $e->getMessage());
            }
        }
    }

    public function testHashesAreThoseOfTheVectors(): void
    {
        foreach (self::vectors('uuid5') as $vector) {
            $hash = Uuid5::hash($vector['fleet'], $vector['tag'], (int) $vector['id']);
            self::assertSame($vector['text'], $hash);
        }
    }
}
