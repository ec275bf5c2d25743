<?php

declare(strict_types=1);

namespace Leafd\Internal;

/** @internal */
final class TimeReply
{
    /** @param int $unixMs the bits of a `u64` */
    public function __construct(public readonly int $unixMs)
    {
    }
}
