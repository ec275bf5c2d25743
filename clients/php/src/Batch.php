<?php

declare(strict_types=1);

namespace Leafd;

use Leafd\Exception\LeafdException;
use Leafd\Internal\Lease;

/**
 * Hands out the IDs of one tag from a lease of many, so that most calls need no round trip. The rest of a
 * lease is forgotten at the end of the request: a gap. After a fork the child starts with a lease of its own.
 */
final class Batch
{
    /** The lease in use, and those that follow it in the order of issue. @var list<Lease> */
    private array $leases = [];

    private int $pid;

    /** @internal {@see Client::batch()} */
    public function __construct(private readonly Client $client, private readonly string $tag, private int $size)
    {
        $this->pid = (int) getmypid();
    }

    /**
     * Takes the next ID, and leases more if the last lease is used up.
     *
     * @param int|null $timeoutMs the timeout if a lease is needed; that of the client by default
     *
     * @throws LeafdException
     */
    public function next(?int $timeoutMs = null): int
    {
        while (true) {
            $id = null;
            foreach ($this->leases as $lease) {
                if (($id = $lease->take()) !== null) {
                    break;
                }
            }
            if ($this->pid !== getmypid()) {
                // These IDs are the parent's. Checked after taking, since a signal handler can fork at any time.
                $this->leases = [];
                $this->pid = (int) getmypid();
            } elseif ($id !== null) {
                return $id;
            }
            if ($this->left() === 0) {
                $runs = $this->client->nextMany($this->tag, $this->size, $timeoutMs)->runs();
                $this->leases = array_map(static fn (Run $run): Lease => new Lease($run), $runs);
            }
        }
    }

    /** How many IDs are left before another lease. */
    public function left(): int
    {
        if ($this->pid !== getmypid()) {
            return 0;
        }

        return array_sum(array_map(static fn (Lease $lease): int => $lease->left(), $this->leases));
    }

    /** @internal {@see Client::batch()} */
    public function resize(int $size): void
    {
        $this->size = $size;
    }

    /** A copy would hand out the same IDs again. */
    private function __clone()
    {
    }

    /** @return never */
    public function __serialize(): array
    {
        throw new \LogicException('a batch cannot be serialized: its copy would hand out the same IDs again');
    }
}
