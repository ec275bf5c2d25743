<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Client;
use Leafd\ErrorCode;
use Leafd\Exception\InvalidArgumentException;
use Leafd\Exception\LeafdException;
use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;
use Leafd\Ids;
use Leafd\Internal\Backoff;
use Leafd\Internal\Connection;
use Leafd\Internal\IdsReply;
use Leafd\Internal\Quiet;
use Leafd\Internal\Request;
use Leafd\Internal\Response;
use Leafd\Layout;
use Leafd\Options;
use Leafd\Run;
use Leafd\SocketPath;
use PHPUnit\Framework\TestCase;

/** What needs no daemon. */
final class UnitsTest extends TestCase
{
    public function testInvalidTagsAreFoundBeforeSending(): void
    {
        foreach (
            [
                '' => 'empty',
                "a\nb" => 'control',
                "a\u{85}" => 'control',
                "\xFF" => 'UTF-8',
                "\xED\xA0\x80" => 'UTF-8',
                str_repeat('ä', 129) => '129 characters',
            ] as $tag => $words
        ) {
            try {
                Request::segment((string) $tag, 1);
                self::fail(bin2hex((string) $tag));
            } catch (InvalidArgumentException $e) {
                self::assertStringContainsString($words, $e->getMessage());
            }
        }
        foreach ([' a ', 'größe', '🍃', str_repeat('🍃', 128), "a\u{A0}", '0'] as $tag) {
            self::assertNotNull(Request::segment($tag, 1));
        }
    }

    public function testACountOutOfRangeIsFoundBeforeSending(): void
    {
        foreach ([0, -1] as $count) {
            try {
                Request::snowflake($count);
                self::fail((string) $count);
            } catch (InvalidArgumentException $e) {
                self::assertFalse($e->isTemporary());
            }
        }
        $this->expectException(RefusedException::class);
        $this->expectExceptionCode(200);
        Request::segment('a', 1 << 32);
    }

    public function testTheDaemonsTimeoutIsALittleLessThanTheTimeLeft(): void
    {
        foreach ([5_000 => 4950, 100 => 90, 1 => 1, 0 => 1, -5 => 1] as $left => $sent) {
            self::assertSame($sent, Request::daemonTimeoutMs($left * 1_000_000));
        }
    }

    public function testAFrameHasTheTimeoutOfItsOwnCall(): void
    {
        $request = Request::segment('a', 1);
        foreach ([[1, 4949], [2, 4949], [3, 90], [-4, 0], [5, 4949]] as [$id, $timeoutMs]) {
            $frame = pack('NPVPa*VV', 29, $id, 1, 1, 'a', 1, $timeoutMs);
            self::assertSame(bin2hex($frame), bin2hex($request->frame($id, $timeoutMs)));
        }
    }

    public function testTheMostFrequentAnswerIsReadInOneStepAndMeansWhatDecodeSays(): void
    {
        foreach ([[1, 1, 1], [-1, 5, 100_000], [\PHP_INT_MIN, 0, 1], [7, \PHP_INT_MAX, 1], [7, \PHP_INT_MAX - 1, 2]] as [$id, $first, $count]) {
            $frame = Peer::idsFrame($id, $first, $count);
            self::assertSame($first, Response::onlyRun($frame, pack('P', $id), $count));
            self::assertNull(Response::onlyRun($frame, pack('P', $id ^ 1), $count));
            self::assertNull(Response::onlyRun($frame, pack('P', $id), $count + 1));
            self::assertNull(Response::onlyRun("$frame\0", pack('P', $id), $count));
            self::assertNull(Response::onlyRun(substr($frame, 0, -1), pack('P', $id), $count));
            for ($bit = 0; $bit < 8 * \strlen($frame); ++$bit) {
                $damaged = $frame;
                $damaged[$bit >> 3] = \chr(\ord($frame[$bit >> 3]) ^ (1 << ($bit & 7)));
                $read = Response::onlyRun($damaged, pack('P', $id), $count);
                if ($read !== null) {
                    $response = Response::decode(substr($damaged, 4));
                    self::assertInstanceOf(IdsReply::class, $response->reply);
                    self::assertSame([$id, $read], [$response->id, Ids::check($response->reply->runs, $count)->first()]);
                }
            }
        }
        self::assertNull(Response::onlyRun(Peer::idsFrame(1, -1), pack('P', 1), 1));
        self::assertNull(Response::onlyRun(Peer::idsFrame(1, \PHP_INT_MAX, 2), pack('P', 1), 2));
        self::assertNull(Response::onlyRun(Peer::idsFrame(1, 1, 0), pack('P', 1), 1));
    }

    public function testAnErrorOfOtherCodeReachesTheHandlerThatWasThereBefore(): void
    {
        $seen = [];
        set_error_handler(static function (int $level, string $text) use (&$seen): bool {
            return (bool) $seen[] = $text;
        });
        try {
            Quiet::call(static fn () => Quiet::call(static fn () => trigger_error('inner')));
            trigger_error('after');
        } finally {
            restore_error_handler();
        }
        self::assertSame(['inner', 'after'], $seen);
        self::assertSame('', Quiet::$warning);
    }

    public function testRequestIdsCountOnAsUnsignedNumbersWithout0(): void
    {
        self::assertSame(
            [1, 6, \PHP_INT_MIN, \PHP_INT_MIN + 1],
            array_map(Connection::idAfter(...), [-1, 5, \PHP_INT_MAX, \PHP_INT_MIN]),
        );
    }

    public function testAnAnswerHasExactlyTheIdsAskedForEachOnce(): void
    {
        $max = \PHP_INT_MAX;
        foreach (
            [
                [[new Run(1, 0)], 0],
                [[new Run(1, 2)], 1],
                [[new Run(1, 1)], 2],
                [[new Run($max, 2)], 2],
                [[new Run(\PHP_INT_MIN, 1)], 1],
                [[new Run(-1, 2)], 2],
                [[new Run(5, 5), new Run(9, 1)], 6],
                [[new Run(9, 1), new Run(5, 5)], 6],
                [[new Run(5, 1), new Run(5, 1)], 2],
            ] as [$runs, $asked]
        ) {
            try {
                Ids::check($runs, $asked);
                self::fail(json_encode($runs) ?: '');
            } catch (ProtocolException) {
            }
        }
        $ids = Ids::check([new Run($max - 1, 2), new Run(5, 3)], 5);
        self::assertSame([$max - 1, $max, 5, 6, 7], $ids->toArray());
        self::assertCount(5, $ids);
        self::assertSame($max - 1, $ids->first());
        self::assertSame($max, $ids->runs()[0]->last());
    }

    public function testPausesDoubleUpToTheLimitAndTheFirstAfterAnAnswerIsNone(): void
    {
        foreach ([0 => 1, 1 => 2] as $jitter => $divisor) {
            $backoff = new Backoff(5, 500);
            self::assertSame(0, $backoff->pause(0));
            foreach ([5, 10, 20, 40, 80, 160, 320, 500, 500] as $ms) {
                $backoff->lost(7, $jitter);
                self::assertSame(intdiv($ms * 1_000_000, $divisor), $backoff->pause(7));
            }
            $backoff->answered();
            $backoff->lost(7, $jitter);
            self::assertSame(0, $backoff->pause(7));
            $backoff->lost(7, 0, 100);
            self::assertSame(99_000_000, $backoff->pause(1_000_007));
            self::assertSame(0, $backoff->pause(200_000_007));
        }
    }

    public function testAnErrorIsTemporaryOnlyIfItMayPassWithoutAChange(): void
    {
        foreach ([300 => true, 302 => true, 306 => false, 307 => false, 399 => true, 202 => false, 299 => false, 101 => false, 4242 => false, 3000 => false] as $number => $temporary) {
            self::assertSame($temporary, (new RefusedException($number))->isTemporary(), (string) $number);
        }
        self::assertSame('Unknown', (new RefusedException(399))->name);
        self::assertSame(ErrorCode::StoreUnavailable, (new RefusedException(302))->errorCode());
        self::assertFalse((new UnavailableException('s', 'denied', 13))->isTemporary());
        self::assertTrue((new UnavailableException('s', 'absent', 2))->isTemporary());
    }

    public function testOptionsOutOfRangeAreRefusedOrMovedIntoIt(): void
    {
        $options = new Options('/s', \PHP_INT_MAX, 0, 0);
        self::assertSame([86_400_000, 1, 1], [$options->timeoutMs, $options->backoffMinMs, $options->backoffMaxMs]);
        foreach ([[''], [str_repeat('x', 108)], ["a\0b"], ['/s', 0], ['/s', -1]] as $arguments) {
            try {
                new Options(...$arguments);
                self::fail(json_encode($arguments) ?: '');
            } catch (InvalidArgumentException $e) {
                self::assertInstanceOf(LeafdException::class, $e);
            }
        }
    }

    public function testAClientIsNeitherClonedNorSerialized(): void
    {
        $client = new Client(new Options('/s'));
        foreach ([$client, $client->batch('a', 10)] as $object) {
            foreach ([static fn () => clone $object, static fn () => serialize($object)] as $copy) {
                try {
                    $copy();
                    self::fail(get_class($object));
                } catch (\Error|\LogicException) {
                }
            }
        }
        self::assertSame($client->batch('a', 5), $client->batch('a', 10));
    }

    public function testLayoutsAreReadAndWritten(): void
    {
        $id = (1_600_000_000_000 - 1_288_834_974_657) << 22 | 513 << 12 | 77;
        $decoded = Layout::leaf()->decode($id);
        self::assertSame([1_600_000_000_000, 513, null, 77], array_values(get_object_vars($decoded)));
        self::assertSame('2020-09-13T12:26:40.000', $decoded->time()->format('Y-m-d\TH:i:s.v'));
        self::assertSame(16, Layout::parse('twitter')->decode($id)->datacenter);
        foreach (
            [
                'leaf' => '41/10/12@1288834974657/1ms',
                'twitter' => '41/5+5/12@1288834974657/1ms',
                'baidu' => '28/22/13@1463673600000/1000ms',
                'js' => '37/8/8@1767225600000/10ms',
                'sonyflake' => '39/s8/w16@1409529600000/10ms',
                'discord' => '41/5+5/12@1420070400000/1ms',
                '41/10/12@2010-11-04T01:42:54.657Z' => '41/10/12@1288834974657/1ms',
                '28/22/13@2026-01-01/1000ms' => '28/22/13@1767225600000/1000ms',
                'baidu@2026-01-01 00:00:00z' => '28/22/13@1767225600000/1000ms',
                '41/10/12@0' => '41/10/12@0/1ms',
            ] as $text => $written
        ) {
            self::assertSame($written, (string) Layout::parse($text));
            self::assertSame($written, (string) Layout::parse($written));
        }
        $wide = Layout::parse('62/0/1@9223372036854775807/1000ms')->decode(\PHP_INT_MAX);
        self::assertSame([\PHP_INT_MAX, 0, 1], [$wide->unixMs, $wide->worker, $wide->sequence]);
        foreach (
            [
                '', 'leaf2', 'leaf@', 'baidu@x', '41/10/12', '41/10@0', '41/10/12@-1', '41/9+/12@0', 'a/b/c@d',
                '41/10/13@0', '0/51/12@0', '41/22/0@0', '41/10/12@0/2ms', '41/11+0/12@0', 'leaf@2026-02-30',
                'leaf@9223372036854775808', "leaf\n", 'leaf@1969-01-01', 'leaf@2026-01-01T24:00:00Z',
            ] as $text
        ) {
            try {
                Layout::parse($text);
                self::fail($text);
            } catch (InvalidArgumentException) {
            }
        }
        $this->expectException(InvalidArgumentException::class);
        Layout::leaf()->decode(-1);
    }

    public function testPresetsOfOtherSystemsSplitTheirIdsAndComposeThem(): void
    {
        foreach (
            [
                // time << 16 | worker << 8 | sequence
                ['js', 123_456 << 16 | 5 << 8 | 7, [1_767_226_834_560, 5, null, 7]],
                // Sonyflake has the sequence above the machine.
                ['sonyflake', 123_456 << 24 | 7 << 16 | 513, [1_409_530_834_560, 513, null, 7]],
                // The example of Discord's documentation.
                ['discord', 175_928_847_299_117_063, [1_462_015_105_796, 32, 1, 7]],
            ] as [$preset, $id, $parts]
        ) {
            $layout = Layout::parse($preset);
            $decoded = $layout->decode($id);
            self::assertSame($parts, array_values(get_object_vars($decoded)));
            $units = intdiv($decoded->unixMs - $layout->epochMs, $layout->unitMs);
            self::assertSame($id, $layout->compose($units, $decoded->worker, $decoded->sequence));
        }
    }

    public function testPartsThatDoNotFitAreNotComposed(): void
    {
        self::assertSame(\PHP_INT_MAX, Layout::leaf()->compose((1 << 41) - 1, (1 << 10) - 1, (1 << 12) - 1));
        foreach ([[1 << 41, 0, 0], [0, 1 << 10, 0], [0, 0, 1 << 12], [-1, 0, 0], [0, 0, \PHP_INT_MIN]] as $parts) {
            try {
                Layout::leaf()->compose(...$parts);
                self::fail(implode(' ', $parts));
            } catch (InvalidArgumentException $e) {
                self::assertStringContainsString('does not fit', $e->getMessage());
            }
        }
    }

    public function testTheSearchLooksAtTheVariableAndThenAtDirectories(): void
    {
        $variables = ['LEAFD_SOCKET' => getenv('LEAFD_SOCKET'), 'XDG_RUNTIME_DIR' => getenv('XDG_RUNTIME_DIR')];
        try {
            putenv('LEAFD_SOCKET=/a/b.sock');
            self::assertSame('/a/b.sock', SocketPath::find());
            putenv('LEAFD_SOCKET=');
            putenv('XDG_RUNTIME_DIR=relative');
            $uid = fileowner('/proc/self');
            $own = "/tmp/leafd-$uid";
            $expected = $uid !== 0 && SocketPath::isPrivateDirectory($own, $uid) ? "$own/leafd.sock" : SocketPath::SYSTEM;
            self::assertSame($expected, SocketPath::find());
        } finally {
            foreach ($variables as $name => $value) {
                putenv($value === false ? $name : "$name=$value");
            }
        }
    }

    public function testOnlyAPrivateDirectoryOfThisUserCountsAsPrivate(): void
    {
        $uid = (int) fileowner('/proc/self');
        $folder = sys_get_temp_dir() . '/leafd-' . bin2hex(random_bytes(6));
        mkdir($folder, 0700);
        symlink($folder, "$folder-link");
        self::assertTrue(SocketPath::isPrivateDirectory($folder, $uid));
        self::assertFalse(SocketPath::isPrivateDirectory($folder, $uid + 1));
        self::assertFalse(SocketPath::isPrivateDirectory("$folder-link", $uid));
        chmod($folder, 0720);
        self::assertFalse(SocketPath::isPrivateDirectory($folder, $uid));
        rmdir($folder);
        unlink("$folder-link");
        self::assertFalse(SocketPath::isPrivateDirectory($folder, $uid));
    }
}
