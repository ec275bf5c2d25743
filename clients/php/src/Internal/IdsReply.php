<?php

declare(strict_types=1);

namespace Leafd\Internal;

use Leafd\Run;

/** @internal */
final class IdsReply
{
    /** @param non-empty-list<Run> $runs not checked yet */
    public function __construct(public readonly array $runs)
    {
    }
}
