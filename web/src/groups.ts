// Requests with one cause, and their time lost: in routes, and in the requests that are examples of them.

import * as format from './format';
import { number, object } from './json';

export interface Group {
    requests: number;
    lost: number; // nanoseconds that the slow ones took longer than their route's median
    estimated: boolean;
}

/** Null where the value is no group. */
export function decodeGroup(value: unknown): Group | null {
    const g = object(value);
    const requests = number(g.requests);
    return requests > 0 ? { requests, lost: number(g.lost_ns), estimated: g.estimated === true } : null;
}

export const MEDIAN_MIN = 5; // sampled requests; must match src/model/request.h
export const USUAL_MIN = 20;
export const USUAL_MIN_P99 = 100;

export const USUAL_PERIOD = '5 minutes'; // that the usual durations are of

/** Why a figure that needs `needed` sampled requests in `period` is not there. */
export const tooFew = (known: number | string, needed: number, period = USUAL_PERIOD): string => `it needs ${needed} sampled requests in ${period}, and there are ${known}`;

/** "3 to 16", or "3". */
export const range = (of: number[]): string => [...new Set([Math.min(...of), Math.max(...of)])].join(' to ');

export const ESTIMATED = '~ is estimated from a random sample of the requests';

/** "~19.6 s"; "none" where nothing was lost. */
export const sayLost = (lost: number, estimated: boolean): string => (lost > 0 ? `${estimated ? '~' : ''}${format.duration(lost)}` : 'none');

export const sayCount = (g: Group): string => `${g.estimated ? '~' : ''}${format.count(Math.max(1, Math.round(g.requests)), 'request')}`;

export const capital = (text: string): string => text && text[0]!.toUpperCase() + text.slice(1);
