<?php

declare(strict_types=1);

namespace Leafd\Tests;

use Leafd\Exception\ClosedException;

/** Forks, signals, and sockets that outlive the request of PHP. */
final class ProcessTest extends ClientCase
{
    /** Answers everything, on any number of connections, and returns how many connections there were. */
    private static function serve(FakeDaemon $daemon, int $answers): int
    {
        $peers = 0;
        $id = 0;
        $open = [];
        $listener = (new \ReflectionProperty(FakeDaemon::class, 'listener'))->getValue($daemon);
        while ($answers > 0) {
            $read = [$listener, ...array_map(static fn (Peer $peer) => self::stream($peer), $open)];
            $none = [];
            if (stream_select($read, $none, $none, 10) === 0) {
                break;
            }
            foreach ($read as $stream) {
                if ($stream === $listener) {
                    $open[] = $daemon->accept();
                    ++$peers;
                    continue;
                }
                foreach ($open as $key => $peer) {
                    if (self::stream($peer) !== $stream) {
                        continue;
                    }
                    try {
                        $body = $peer->read();
                        if ($peer->answersHello($body)) {
                            continue;
                        }
                        $count = unpack('V', substr($body, -8))[1];
                        $peer->ids($id + 1, $count);
                        $id += $count;
                        --$answers;
                    } catch (\RuntimeException) {
                        unset($open[$key]);
                    }
                }
            }
        }

        return $peers;
    }

    private static function stream(Peer $peer): mixed
    {
        return (new \ReflectionProperty(Peer::class, 'stream'))->getValue($peer);
    }

    /** @return iterable<string, array{bool}> */
    public function kinds(): iterable
    {
        yield 'ordinary' => [false];
        yield 'persistent' => [true];
    }

    /** @dataProvider kinds */
    public function testAChildHasItsOwnConnectionAndLeavesItsParentsAlone(bool $persistent): void
    {
        $client = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 6), 5000, $persistent);
        self::assertSame(1, $client->next('a'));
        self::assertSame([2, 3], self::inChild(static fn (): array => [$client->next('a'), $client->next('a')]));
        self::assertSame(4, $client->next('a'));
        // A child that ends in the ordinary way, with destructors.
        $pid = pcntl_fork();
        if ($pid === 0) {
            unset($client);
            pcntl_exec('/bin/true');
        }
        pcntl_waitpid($pid, $status);
        self::assertSame([5, 6], [$client->next('a'), $client->next('a')]);
        self::assertSame(2, $this->daemon->result());
    }

    public function testAChildNeverFindsAPersistentSocketOfItsParentThatNoClientHolds(): void
    {
        $client = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 3), 5000, true);
        self::assertSame(1, $client->next('a'));
        // The next request of PHP forks before it uses leafd.
        self::newRequest();
        $id = self::inChild(fn (): int => $this->clientOf($this->daemon, 5000, true)->next('a'));
        self::assertSame(2, $id);
        self::assertSame(3, $this->clientOf($this->daemon, 5000, true)->next('a'));
        self::assertSame(2, $this->daemon->result());
    }

    public function testABatchHandsOutOneLeaseAndAChildStartsWithItsOwn(): void
    {
        $client = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 3));
        $batch = $client->batch('a', 10);
        self::assertSame([1, 2, 3], [$batch->next(), $batch->next(), $client->batch('a', 10)->next()]);
        self::assertSame(7, $batch->left());
        self::assertSame([0, 11, 12, 8], self::inChild(
            static fn (): array => [$batch->left(), $batch->next(), $batch->next(), $batch->left()]
        ));
        self::assertSame([4, 5, 6, 7, 8, 9, 10, 21], array_map(static fn () => $batch->next(), range(1, 8)));
        $this->daemon->result();
    }

    /** @dataProvider kinds */
    public function testASignalHandlerMayUseTheClientInTheMiddleOfACall(bool $persistent): void
    {
        $test = getmypid();
        $client = $this->client(static function (FakeDaemon $daemon) use ($test): array {
            $outer = $daemon->accept();
            $tags = [$outer->readTag()];
            posix_kill($test, SIGUSR1);
            $inner = $daemon->accept();
            $tags[] = $inner->readTag();
            $outer->ids(100);
            $inner->ids(200);

            return $tags;
        }, 5000, $persistent);
        $inner = null;
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static function () use ($client, &$inner): void {
            $inner = $client->next('inner');
        }, false);
        try {
            self::assertSame(100, $client->next('outer'));
            self::assertSame(200, $inner);
            self::assertSame(['outer', 'inner'], $this->daemon->result());
        } finally {
            pcntl_signal(SIGUSR1, SIG_DFL);
            pcntl_async_signals(false);
        }
    }

    /** @dataProvider kinds */
    public function testASignalHandlerThatThrowsLeavesNoAnswerBehind(bool $persistent): void
    {
        $test = getmypid();
        $client = $this->client(static function (FakeDaemon $daemon) use ($test): void {
            $first = $daemon->accept();
            $first->read();
            posix_kill($test, SIGUSR1);
            usleep(50_000);
            $first->ids(666);
            $second = $daemon->accept();
            $second->read();
            $second->ids(5);
        }, 5000, $persistent);
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static fn () => throw new \DomainException('enough'), false);
        try {
            $client->next('a');
            self::fail('the handler did not run');
        } catch (\DomainException) {
        } finally {
            pcntl_signal(SIGUSR1, SIG_DFL);
            pcntl_async_signals(false);
        }
        self::assertSame(5, $client->next('b'));
        $this->daemon->result();
    }

    public function testASignalHandlerThatForksDoesNotMakeTwoCallersOfOneAnswer(): void
    {
        $test = getmypid();
        $client = $this->client(static function (FakeDaemon $daemon) use ($test): void {
            $parents = $daemon->accept();
            $parents->readTag();
            // The client waits for its answer by now.
            usleep(20_000);
            posix_kill($test, SIGUSR1);
            $childs = $daemon->accept();
            $childs->readTag();
            $parents->ids(1);
            $childs->ids(2);
            $parents->readTag();
            $parents->ids(3);
        });
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = -1;
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static function () use (&$child): void {
            $child = pcntl_fork();
        }, false);
        try {
            $id = $client->next('a');
        } finally {
            pcntl_signal(SIGUSR1, SIG_DFL);
            pcntl_async_signals(false);
        }
        if ($child === 0) {
            fwrite($its, (string) $id);
            posix_kill((int) getmypid(), SIGKILL);
        }
        fclose($its);
        self::assertSame([1, '2'], [$id, stream_get_contents($mine)]);
        pcntl_waitpid($child, $status);
        self::assertSame(3, $client->next('a'));
        $this->daemon->result();
    }

    public function testASignalHandlerThatForksWhileTheClientConnectsDoesNotShareTheSocket(): void
    {
        $client = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 3));
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = -1;
        Interrupt::$afterConnect = static function () use (&$child): void {
            Interrupt::$afterConnect = null;
            $child = pcntl_fork();
        };
        $told = null;
        try {
            $told = $client->next('a');
        } catch (\Throwable $e) {
            $told = (string) $e;
        }
        if ($child === 0) {
            fwrite($its, (string) $told);
            posix_kill((int) getmypid(), SIGKILL);
        }
        fclose($its);
        $ids = [(int) $told, (int) stream_get_contents($mine)];
        pcntl_waitpid($child, $status);
        sort($ids);
        self::assertSame([1, 2], $ids);
        self::assertSame(3, $client->next('a'));
        self::assertSame(2, $this->daemon->result());
    }

    /** @return iterable<string, array{string, bool}> */
    public function forks(): iterable
    {
        foreach (['afterWrite', 'afterSelect', 'afterRead'] as $place) {
            yield "$place, ordinary" => [$place, false];
            yield "$place, persistent" => [$place, true];
        }
    }

    /** @dataProvider forks */
    public function testAForkInTheMiddleOfACallMakesNoSecondUserOfTheConnection(string $place, bool $persistent): void
    {
        $client = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 5), 5000, $persistent);
        self::assertSame(1, $client->next('a'));
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $child = -1;
        Interrupt::$$place = static function () use ($place, &$child): void {
            Interrupt::$$place = null;
            $child = pcntl_fork();
        };
        try {
            $told = $client->next('a') . ' ' . $client->next('a');
        } catch (\Throwable $e) {
            $told = (string) $e;
        }
        if ($child === 0) {
            fwrite($its, $told);
            posix_kill((int) getmypid(), SIGKILL);
        }
        fclose($its);
        $ids = [...explode(' ', $told), ...explode(' ', (string) stream_get_contents($mine))];
        pcntl_waitpid($child, $status);
        sort($ids);
        self::assertSame(['2', '3', '4', '5'], $ids);
        self::assertSame(2, $this->daemon->result());
    }

    public function testSignalsDoNotExtendTheDeadline(): void
    {
        $test = getmypid();
        $client = $this->client(static function (FakeDaemon $daemon) use ($test): void {
            $daemon->accept()->read();
            while (true) {
                posix_kill($test, SIGUSR1);
                usleep(5000);
            }
        });
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, static function (): void {
        }, false);
        try {
            self::failure(static fn () => $client->next('a', 150));
            $this->addToAssertionCount(1);
        } finally {
            $this->daemon = null;
            pcntl_signal(SIGUSR1, SIG_DFL);
            pcntl_async_signals(false);
        }
    }

    public function testAPersistentSocketIsUsedByTheNextRequest(): void
    {
        $this->client(static fn (FakeDaemon $daemon): array => [self::hellos($daemon->acceptOnly()), $daemon->waiting()]);
        foreach ([1, 2, 3] as $id) {
            self::newRequest();
            self::assertSame($id, $this->clientOf($this->daemon, 5000, true)->next('a'));
        }
        [$ids, $others] = $this->daemon->result();
        self::assertSame(0, $others);
        self::assertCount(3, array_unique($ids));
    }

    /** @return list<int> the IDs of three handshakes on one connection */
    private static function hellos(Peer $peer): array
    {
        $hellos = [];
        foreach ([1, 2, 3] as $id) {
            $peer->hello();
            $hellos[] = $peer->id;
            $peer->read();
            $peer->ids($id);
        }

        return $hellos;
    }

    /** @return iterable<string, array{\Closure(Peer, int): void}> what an earlier request leaves; the ID is its own */
    public function leftovers(): iterable
    {
        yield 'its answer' => [static fn (Peer $peer, int $id) => $peer->send(Peer::idsFrame($id, 666))];
        yield 'half its answer' => [static fn (Peer $peer, int $id) => $peer->send(substr(Peer::idsFrame($id, 666), 0, 30))];
        yield 'its hello' => [static fn (Peer $peer, int $id) => $peer->send(Peer::frame($id, 1, pack('vVV', 1, 9, 9)))];
        yield 'an error' => [static fn (Peer $peer) => $peer->send(Peer::errorFrame(0, 103))];
        yield 'a refusal' => [static fn (Peer $peer) => $peer->send(Peer::errorFrame(0, 206))];
        yield 'goodbye' => [static fn (Peer $peer) => $peer->goodbye()];
        yield 'the end' => [static fn (Peer $peer) => $peer->close()];
        yield 'noise' => [static fn (Peer $peer) => $peer->send(random_bytes(1000))];
        yield 'nothing' => [static function (): void {
        }];
        yield 'its answer, behind hello' => [static function (Peer $peer, int $id): void {
            $peer->hello();
            $peer->send(Peer::idsFrame($id, 666));
        }];
        yield 'its answer, behind the next call' => [static function (Peer $peer, int $id): void {
            $peer->hello();
            $peer->read();
            $peer->send(Peer::idsFrame($id, 666));
        }];
        yield 'an error with the ID of hello' => [static function (Peer $peer): void {
            $peer->read();
            $peer->error(103);
        }];
        yield 'its answer under the ID of hello' => [static function (Peer $peer): void {
            $peer->read();
            $peer->ids(666);
        }];
        yield 'a wrong frame behind the next call' => [static function (Peer $peer): void {
            $peer->hello();
            $peer->read();
            $peer->send(pack('N', 1 << 30));
        }];
    }

    /**
     * @dataProvider leftovers
     *
     * @param \Closure(Peer, int): void $leave
     */
    public function testWhatARequestLeftInItsSocketNeverReachesTheNextOne(\Closure $leave): void
    {
        $this->client(static function (FakeDaemon $daemon) use ($leave): string {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            try {
                $leave($peer, $peer->id);
            } catch (\RuntimeException) {
                // This daemon was slow, and the client has given the socket up.
            }
            $new = $daemon->accept();
            $tag = $new->readTag();
            $new->ids(5);

            return $tag;
        });
        self::assertSame(1, $this->clientOf($this->daemon, 5000, true)->next('first'));
        usleep(20_000);
        self::newRequest();
        self::assertSame(5, $this->clientOf($this->daemon, 5000, true)->next('second'));
        self::assertSame('second', $this->daemon->result());
    }

    public function testAnInheritedSocketStaysSuspectIfTheFirstLookAtItWasInterrupted(): void
    {
        // Wherever the first call of the request is interrupted, the second one gets its own answer.
        for ($place = 1; $place <= 4; ++$place) {
            $this->client(static function (FakeDaemon $daemon): void {
                $peer = $daemon->accept();
                $peer->read();
                $peer->ids(1);
                $peer->ids(666);
                $connections = [$peer];
                while (true) {
                    $peer = $daemon->acceptOnly();
                    $connections[] = $peer;
                    try {
                        $peer->hello();
                        $peer->readTag();
                        $peer->ids(5);
                    } catch (\RuntimeException) {
                        // The client closed it.
                    }
                }
            });
            self::newRequest();
            self::assertSame(1, $this->clientOf($this->daemon, 5000, true)->next('first'));
            usleep(10_000);
            self::newRequest();
            $client = $this->clientOf($this->daemon, 5000, true);
            $left = $place;
            Interrupt::$beforeSelect = static function () use (&$left): void {
                if (--$left === 0) {
                    throw new \DomainException('enough');
                }
            };
            try {
                $client->next('second');
                self::assertGreaterThan(1, $place);
            } catch (\DomainException) {
            }
            self::assertSame(5, $client->next('third'), "interrupted at $place");
            Interrupt::$beforeSelect = null;
        }
    }

    public function testHalfARequestInASocketIsNotCompletedByTheNextOne(): void
    {
        $this->client(static function (FakeDaemon $daemon): string {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            // Half of a request for IDs; then the rest would be the hello of the next request.
            $bytes = $peer->bytes(20 + 22);
            $new = $daemon->accept();
            $tag = $new->readTag();
            $new->ids(5);

            return $tag . bin2hex(substr($bytes, 0, 4));
        });
        $client = $this->clientOf($this->daemon, 5000, true);
        self::assertSame(1, $client->next('first'));
        // As if PHP had ended this request in the middle of fwrite.
        $stream = pfsockopen("unix://{$this->daemon->path}", -getmypid());
        fwrite($stream, substr(pack('N', 33) . random_bytes(33), 0, 20));
        self::newRequest();
        self::assertSame(5, $this->clientOf($this->daemon, 5000, true)->next('second'));
        self::assertSame('second00000021', $this->daemon->result());
    }

    public function testATimeoutClosesAPersistentSocket(): void
    {
        $client = $this->client(static function (FakeDaemon $daemon): bool {
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(1);
            $peer->read();
            $closed = $peer->isClosed();
            $peer = $daemon->accept();
            $peer->read();
            $peer->ids(5);

            return $closed;
        }, 5000, true);
        self::assertSame(1, $client->next('a'));
        self::failure(static fn () => $client->next('a', 50));
        self::newRequest();
        self::assertSame(5, $this->clientOf($this->daemon, 5000, true)->next('b'));
        self::assertTrue($this->daemon->result());
    }

    public function testTwoPersistentClientsOfOneRequestShareTheSocket(): void
    {
        $one = $this->client(static fn (FakeDaemon $daemon): int => self::serve($daemon, 4), 5000, true);
        $two = $this->clientOf($this->daemon, 5000, true);
        self::assertSame([1, 2, 3], [$one->next('a'), $two->next('b'), $one->next('a')]);
        $one->close();
        self::assertInstanceOf(ClosedException::class, self::failure(static fn () => $one->next('a')));
        self::assertSame(4, $two->next('b'));
        self::assertSame(2, $this->daemon->result());
    }
}
