// What nobody looked at, said where the data is shown: that nothing is seen of it does not mean that nothing was there.

import * as format from './format';
import type { Profile } from './profile';

type Observed = Pick<Profile, 'time' | 'duration' | 'notObserved'>;

const WHY = 'the agent had no budget for it, did not run yet, or is configured not to';

/** In all of the span that was asked for. */
export function nobodyLooked({ duration, notObserved }: Pick<Profile, 'duration' | 'notObserved'>): boolean {
    return notObserved > 0 && duration <= 0;
}

export function sayNotObserved(observed: Observed): string {
    const { time, notObserved } = observed;
    if (notObserved <= 0) return '';
    const what = time === 'cpu' ? 'nobody looked' : 'waits were not looked at';
    if (nobodyLooked(observed)) return `In this span ${what}: ${WHY}.`;
    return `For ${format.span(notObserved)} of this span ${what}: ${WHY}. What is shown is of the rest.`;
}

export function NotObserved({ profile }: { profile: Profile }) {
    const words = sayNotObserved(profile);
    return words ? (
        <p class="warn" role="status" data-testid="not-observed">
            {words}
        </p>
    ) : null;
}
