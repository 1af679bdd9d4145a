// Reports time that was not monitored next to the data, which distinguishes "no samples" from "not monitored".

import * as format from './format';
import type { Profile } from './profile';

type Observed = Pick<Profile, 'time' | 'duration' | 'notObserved'>;

const WHY = 'the agent had no budget for it, was not running yet, or is configured not to';

/** Whether no part of the requested interval was monitored. */
export function isUnmonitored({ duration, notObserved }: Pick<Profile, 'duration' | 'notObserved'>): boolean {
    return notObserved > 0 && duration <= 0;
}

export function sayNotObserved(observed: Observed): string {
    const { time, notObserved } = observed;
    if (notObserved <= 0) return '';
    const what = time === 'cpu' ? 'CPU time was not monitored' : 'waits were not monitored';
    if (isUnmonitored(observed)) return `In this interval ${what}: ${WHY}.`;
    return `For ${format.span(notObserved)} of this interval ${what}: ${WHY}. The data shown covers the rest.`;
}

export function NotObserved({ profile }: { profile: Profile }) {
    const words = sayNotObserved(profile);
    return words ? (
        <p class="warn" role="status" data-testid="not-observed">
            {words}
        </p>
    ) : null;
}
