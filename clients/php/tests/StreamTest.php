<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Exception\DeadlineException;
use Leafd\Exception\ProtocolException;
use Leafd\Exception\RefusedException;
use Leafd\Exception\UnavailableException;

/** The client against daemons that misbehave: framing, deadlines, reconnects. */
final class StreamTest extends ClientCase
{
    public function testFramesMayArriveByteByByte(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            $peer = $daemon->acceptOnly();
            $peer->read();
            foreach (str_split(Peer::frame($peer->id, 1, pack('vVV', 1, 100, 1))) as $byte) {
                $peer->send($byte);
                usleep(200);
            }
            $peer->read();
            foreach (str_split(Peer::idsFrame($peer->id, 7, 3)) as $byte) {
                $peer->send($byte);
                usleep(200);
            }
        });
        self::assertSame([7, 8, 9], $client->nextMany('a', 3)->toArray());
        $this->daemon->result();
    }

    public function testTheLargestAnswerIsRead(): void
    {
        $runs = intdiv(262_144 - 32, 12) + 1;
        $client = $this->client(static function (FakeDaemon $daemon) use ($runs): void {
            $peer = $daemon->accept();
            $peer->read();
            $fields = pack('PVP', 1, 1, $runs - 1);
            for ($i = 1; $i < $runs; ++$i) {
                $fields .= pack('PV', 2 * $i + 1, 1);
            }
            $peer->send(Peer::frame($peer->id, 2, $fields));
            $peer->isClosed();
        });
        self::assertSame(2 * $runs - 1, $client->nextMany('a', $runs)->runs()[$runs - 1]->first);
    }

    public function testALateAnswerNeverReachesTheNextCall(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): int {
            $late = $daemon->accept();
            $late->read();
            $late->ids(1);
            $late->read();
            usleep(100_000);
            $late->ids(666);
            $next = $daemon->accept();
            $next->readTag();
            $late->ids(667);
            $next->ids(5);

            return $daemon->waiting();
        });
        self::assertSame(1, $client->next('first'));
        self::assertInstanceOf(DeadlineException::class, self::failure(static fn () => $client->next('late', 50)));
        self::assertSame(5, $client->next('next'));
        self::assertSame(0, $this->daemon->result());
    }

    public function testManyTagsInTurnEachReachTheDaemonAsTheyAre(): void
    {
        $tags = [...array_map('strval', range(1, 120)), '01', '1', '120', ' 1'];
        $client = $this->client(static function (FakeDaemon $daemon) use ($tags): array {
            $peer = $daemon->accept();
            $seen = [];
            foreach ($tags as $place => $tag) {
                $seen[] = $peer->readTag();
                $peer->ids($place);
            }

            return $seen;
        });
        self::assertSame(array_keys($tags), array_map(static fn ($tag) => $client->next($tag), $tags));
        self::assertSame($tags, $this->daemon->result());
    }

    public function testEveryRequestHasAnIdOfItsOwnThatIsNot0(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): array {
            $peer = $daemon->accept();
            $ids = [$peer->id];
            for ($i = 1; $i <= 100; ++$i) {
                $peer->read();
                $ids[] = $peer->id;
                $peer->ids($i);
            }

            return $ids;
        });
        for ($i = 1; $i <= 100; ++$i) {
            self::assertSame($i, $client->next('a'));
        }
        $ids = $this->daemon->result();
        self::assertCount(101, array_unique($ids));
        self::assertNotContains(0, $ids);
    }

    public function testErrorsOfTheDaemonReachTheCallerAndTheConnectionGoesOn(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): int {
            $peer = $daemon->accept();
            foreach ([[399, 7, 9], [4242, 0, 0], [202, 0, 0], [103, 0, 0]] as $error) {
                $peer->read();
                $peer->error(...$error);
            }
            $peer->read();
            $peer->ids(1);

            return $daemon->waiting();
        });
        $errors = array_map(static fn () => self::failure(static fn () => $client->next('a')), range(1, 4));
        self::assertContainsOnlyInstancesOf(RefusedException::class, $errors);
        self::assertSame([399, 4242, 202, 103], array_map(static fn ($e) => $e->number, $errors));
        self::assertSame([7, 9, 'Unknown', true], [
            $errors[0]->retryAfterMs, $errors[0]->detail, $errors[0]->name, $errors[0]->isTemporary(),
        ]);
        self::assertSame(1, $client->next('a'));
        self::assertSame(0, $this->daemon->result());
    }

    /** @return iterable<string, array{\Closure(int): string}> */
    public function breaches(): iterable
    {
        yield 'an unknown reply' => [static fn (int $id) => Peer::frame($id, 99)];
        yield 'a reply never asked for' => [static fn (int $id) => Peer::frame($id, 5, pack('P', 0))];
        yield 'a reply of the wrong kind' => [static fn (int $id) => Peer::frame($id, 3, pack('P', 1))];
        yield 'too long a frame' => [static fn () => pack('N', 262_145)];
        yield 'a damaged body' => [static fn (int $id) => Peer::frame($id, 2, 'xyz')];
        yield 'an empty body' => [static fn () => pack('N', 0)];
        yield 'bytes left over' => [static fn (int $id) => Peer::frame($id, 2, pack('PVP', 1, 1, 0) . 'x')];
        yield 'a list that is too long' => [static fn (int $id) => Peer::frame($id, 2, pack('PVP', 1, 1, 1 << 40))];
        yield 'a list longer than any' => [static fn (int $id) => Peer::frame($id, 2, pack('PVP', 1, 1, -1))];
        yield 'a text that is no UTF-8' => [static fn (int $id) => Peer::errorFrame($id, 202, 0, 0, "\xFF")];
        yield 'the answer to another request' => [static fn (int $id) => Peer::idsFrame($id + 1, 1)];
        yield 'the answer to an earlier request' => [static fn (int $id) => Peer::idsFrame($id - 1, 1)];
        yield 'an answer without a request' => [static fn () => Peer::idsFrame(0, 1)];
        yield 'too many IDs' => [static fn (int $id) => Peer::idsFrame($id, 1, 2)];
        yield 'an ID above 2^63 - 1' => [static fn (int $id) => Peer::idsFrame($id, \PHP_INT_MIN)];
    }

    /**
     * @dataProvider breaches
     *
     * @param \Closure(int): string $answer
     */
    public function testAPeerThatBreaksTheProtocolIsReportedAtOnceAndTheNextCallReconnects(\Closure $answer): void
    {
        $client = $this->client(static function (FakeDaemon $daemon) use ($answer): bool {
            $peer = $daemon->accept();
            $peer->read();
            $peer->send($answer($peer->id));
            $closed = $peer->isClosed();
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(5);

            return $closed;
        });
        self::assertInstanceOf(ProtocolException::class, self::failure(static fn () => $client->next('a')));
        self::assertSame(5, $client->next('a'));
        self::assertTrue($this->daemon->result());
    }

    /** @return iterable<string, array{bool, int, bool}> */
    public function refusals(): iterable
    {
        foreach ([101, 206, 999] as $number) {
            foreach (['an ordinary' => false, 'a persistent' => true] as $kind => $persistent) {
                yield "$number to $kind client, after its hello" => [true, $number, $persistent];
                yield "$number to $kind client, before its hello" => [false, $number, $persistent];
            }
        }
    }

    /** @dataProvider refusals */
    public function testARefusedConnectionIsReportedAtOnce(bool $reads, int $number, bool $persistent): void
    {
        $client = $this->client(static function (FakeDaemon $daemon) use ($reads, $number): int {
            $peer = $daemon->acceptOnly();
            if ($reads) {
                $peer->read();
            }
            $peer->send(Peer::errorFrame($number === 101 ? $peer->id : 0, $number, 0, 1000));
            $peer->close();

            return $daemon->waiting();
        }, 5000, $persistent);
        $e = self::failure(static fn () => $client->next('a'));
        self::assertInstanceOf(RefusedException::class, $e);
        self::assertSame([$number, 1000], [$e->number, $e->detail]);
        self::assertSame(0, $this->daemon->result());
    }

    public function testTheReasonIsReadIfWritingFails(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): int {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            // Whoever writes now gets EPIPE, and can still read.
            $peer->send(Peer::errorFrame(0, 206));
            $peer->close();

            return $daemon->waiting(0.2);
        });
        self::assertSame(1, $client->next('a'));
        usleep(50_000);
        $e = self::failure(static fn () => $client->next('a'));
        self::assertInstanceOf(RefusedException::class, $e);
        self::assertSame(206, $e->number);
        self::assertSame(0, $this->daemon->result());
    }

    public function testAFullDaemonIsTriedAgainAndNotBeforeTheTimeItAsksFor(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): float {
            $start = microtime(true);
            $daemon->acceptOnly()->send(Peer::errorFrame(0, 300, 100));
            $peer = $daemon->accept();
            $waited = microtime(true) - $start;
            $peer->read();
            $peer->ids(1);

            return $waited;
        });
        self::assertSame(1, $client->next('a'));
        self::assertGreaterThan(0.09, $this->daemon->result());
    }

    public function testADaemonThatStaysFullIsReportedAtTheDeadlineWithItsOwnError(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            while (true) {
                $daemon->acceptOnly()->send(Peer::errorFrame(0, 300));
            }
        });
        $start = microtime(true);
        $e = self::failure(static fn () => $client->next('a', 500));
        self::assertInstanceOf(RefusedException::class, $e);
        self::assertSame([300, true], [$e->number, $e->isTemporary()]);
        self::assertGreaterThanOrEqual(0.5, microtime(true) - $start);
    }

    /** @return iterable<string, array{\Closure(Peer): void}> */
    public function ends(): iterable
    {
        yield 'end of the stream' => [static fn (Peer $peer) => $peer->close()];
        yield 'half an answer' => [static function (Peer $peer): void {
            $peer->send(substr(Peer::idsFrame($peer->id, 666), 0, 20));
            $peer->close();
        }];
        yield 'goodbye' => [static fn (Peer $peer) => $peer->goodbye()];
        yield 'goodbye and the end' => [static function (Peer $peer): void {
            $peer->goodbye();
            $peer->close();
        }];
        yield 'error 309' => [static fn (Peer $peer) => $peer->error(309)];
        yield 'error 309 with ID 0' => [static fn (Peer $peer) => $peer->send(Peer::errorFrame(0, 309))];
    }

    /**
     * @dataProvider ends
     *
     * @param \Closure(Peer): void $end
     */
    public function testACallWithoutAnAnswerIsRepeated(\Closure $end): void
    {
        $client = $this->client(static function (FakeDaemon $daemon) use ($end): string {
            $first = $daemon->accept();
            $first->read();
            $end($first);
            $peer = $daemon->accept();
            $tag = $peer->readTag();
            $peer->ids(5);

            return $tag;
        });
        self::assertSame(5, $client->next('orders'));
        self::assertSame('orders', $this->daemon->result());
    }

    public function testAnAnswerAfterGoodbyeIsUsedAndNothingMoreIsSentThere(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): bool {
            $peer = $daemon->accept();
            $peer->read();
            $peer->send(Peer::frame(0, 6) . Peer::idsFrame($peer->id, 1));
            $closed = $peer->isClosed();
            $peer = $daemon->accept();
            $peer->read();
            $peer->send(Peer::idsFrame($peer->id, 2) . Peer::frame(0, 6));
            $closed = $closed && $peer->isClosed();
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(3);

            return $closed;
        });
        self::assertSame([1, 2, 3], array_map(static fn () => $client->next('a'), range(1, 3)));
        self::assertTrue($this->daemon->result());
    }

    public function testAnIdleConnectionThatTheDaemonClosedFailsNoCall(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            for ($id = 1; $id <= 3; ++$id) {
                $peer = $daemon->accept();
                $peer->read();
                $peer->ids($id);
                $peer->close();
            }
        });
        for ($id = 1; $id <= 3; ++$id) {
            self::assertSame($id, $client->next('a'));
            usleep(20_000);
        }
        $this->daemon->result();
    }

    public function testSilenceEndsAtTheDeadline(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            $peer->read();
            $peer->isClosed();
        });
        self::assertSame(1, $client->next('a'));
        $e = self::failure(static fn () => $client->next('a', 150));
        self::assertInstanceOf(DeadlineException::class, $e);
        self::assertStringContainsString('Segment within 150 ms', $e->getMessage());
    }

    public function testSilenceInsteadOfHelloMeansUnavailable(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            $peer = $daemon->acceptOnly();
            $peer->read();
            $peer->isClosed();
        });
        $e = self::failure(static fn () => $client->next('a', 100));
        self::assertInstanceOf(UnavailableException::class, $e);
        self::assertTrue($e->isTemporary());
    }

    public function testAByteNowAndThenDoesNotExtendTheDeadline(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            $peer->read();
            foreach (str_split(Peer::idsFrame($peer->id, 2)) as $byte) {
                $peer->send($byte);
                usleep(30_000);
            }
        });
        self::assertSame(1, $client->next('a'));
        self::assertInstanceOf(DeadlineException::class, self::failure(static fn () => $client->next('a', 150)));
    }

    public function testGoodbyesWithoutEndDoNotExtendTheDeadline(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): void {
            while (true) {
                $peer = $daemon->accept();
                $peer->read();
                for ($i = 0; $i < 100; ++$i) {
                    $peer->goodbye();
                    usleep(1000);
                }
            }
        });
        self::failure(static fn () => $client->next('a', 250));
        $this->addToAssertionCount(1);
    }

    public function testADaemonThatIsAbsentIsAwaited(): void
    {
        $absent = new FakeDaemon(null);
        unlink($absent->path);
        $client = $this->clientOf($absent);
        $e = self::failure(static fn () => $client->next('a', 50));
        self::assertInstanceOf(UnavailableException::class, $e);
        self::assertSame([2, true], [$e->errno, $e->isTemporary()]);
    }

    public function testAFullBacklogIsUnavailableAtTheDeadline(): void
    {
        $full = new FakeDaemon(null, 0);
        $held = [];
        for ($i = 0; $i < 5; ++$i) {
            $held[] = @stream_socket_client("unix://$full->path", $errno, $reason, 0.01);
        }
        $e = self::failure(fn () => $this->clientOf($full)->next('a', 100));
        self::assertInstanceOf(UnavailableException::class, $e);
    }

    public function testMissingPermissionIsReportedAtOnce(): void
    {
        $closed = new FakeDaemon(null);
        chmod($closed->path, 0600);
        $told = self::inChild(function () use ($closed): array {
            posix_geteuid() === 0 ? posix_setuid(65534) : chmod($closed->path, 0);
            // Not at once would mean in an hour.
            $e = self::failure(fn () => $this->clientOf($closed)->next('a', 3_600_000));

            return [$e::class, $e->isTemporary()];
        });
        self::assertSame([UnavailableException::class, false], $told);
    }

    public function testHighDescriptorsWorkToo(): void
    {
        $limits = posix_getrlimit();
        if ($limits === false || ($limits['soft openfiles'] !== 'unlimited' && $limits['soft openfiles'] < 1200)) {
            self::markTestSkipped('needs more than 1200 open files');
        }
        $client = $this->client(static function (FakeDaemon $daemon): void {
            $peer = $daemon->accept();
            $peer->read();
            usleep(20_000);
            $peer->ids(1);
            $peer->read();
            $peer->isClosed();
        });
        $files = array_map(static fn () => fopen('/dev/null', 'r'), range(1, 1100));
        self::assertSame(1, $client->next('a'));
        self::assertInstanceOf(DeadlineException::class, self::failure(static fn () => $client->next('a', 50)));
        self::assertCount(1100, $files);
    }

    public function testErrorsOfASignalHandlerInTheMiddleOfACallReachTheApplication(): void
    {
        $seen = [];
        set_error_handler(static function (int $level, string $text) use (&$seen): bool {
            $seen[] = $text;

            return true;
        });
        try {
            $client = $this->client(static function (FakeDaemon $daemon): void {
                $peer = $daemon->accept();
                $peer->read();
                $peer->ids(1);
            });
            // Runs within the client's own call, as a signal handler does.
            Interrupt::$beforeSelect = static function (): void {
                trigger_error('from the handler', E_USER_WARNING);
            };
            self::assertSame(1, $client->next('a'));
        } finally {
            restore_error_handler();
        }
        self::assertSame(['from the handler'], array_unique($seen));
    }

    public function testWarningsOfPhpStayAwayFromTheApplication(): void
    {
        $seen = [];
        set_error_handler(static function (int $level, string $warning) use (&$seen): bool {
            $seen[] = $warning;

            return true;
        });
        try {
            $client = $this->client(static function (FakeDaemon $daemon): void {
                $peer = $daemon->accept();
                $peer->read();
                $peer->ids(1);
                $peer->close();
            });
            self::assertSame(1, $client->next('a'));
            self::failure(static fn () => $client->next('a', 50));
        } finally {
            restore_error_handler();
        }
        self::assertSame([], $seen);
    }
}
