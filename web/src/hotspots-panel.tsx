// Functions over the last two minutes, one row per function, by windows of some seconds: shows which became hot, and when. All rows share one
// scale, except the row of all others. A click on a name searches for it in the flame graph; a window, selected by mouse or keyboard, is shown
// in the flame graph.

import { useEffect, useRef, useState } from 'preact/hooks';
import { useAnswer } from './api';
import * as format from './format';
import { sameRegion, type Region } from './heat';
import { decodeHotspots, exactly, hotspotsPath, isWhole, othersOf, rateOf, ratesOf, regionOf, type By, type Hotspots, type Order, type Rates } from './hotspots';
import { barColor } from './palette';
import type { Kind, Scope } from './profile';

const [FEW, MANY] = [8, 30];
const ROW = 20; // pixels
const MARKS = 6;

interface Props {
    seconds: number;
    scope: Scope;
    again: unknown; // fetches again when it changes
    dark: boolean;
    region: Region | null;
    setRegion: (region: Region) => void;
    words: string; // search expression of the flame graph
    setWords: (words: string) => void;
}

interface Line {
    name: string;
    where: string;
    kind: Kind | null; // null: all others
    weights: number[];
    rates: Rates;
    scale: number;
}

const cpus = (rate: number): string => (rate > 0 && rate < 0.005 ? '< 0.01' : rate.toFixed(2));

function linesOf(h: Hotspots): Line[] {
    const rows = h.rows.map((r) => ({ name: r.name, where: r.mapping, kind: r.kind, weights: r.weights, rates: ratesOf(h, r.weights) }));
    const scale = Math.max(...rows.map((r) => r.rates.most), 0);
    const others = othersOf(h);
    const lines: Line[] = rows.map((r) => ({ ...r, scale }));
    if (others && h.functions > h.rows.length) {
        const rates = ratesOf(h, others);
        lines.push({ name: `all ${format.integer(h.functions - h.rows.length)} others`, where: 'All other functions together, on a separate scale', kind: null, weights: others, rates, scale: rates.most });
    }
    return lines;
}

function Bars({ hotspots, lines, start, seconds, dark, marked, picked }: { hotspots: Hotspots; lines: Line[]; start: number; seconds: number; dark: boolean; marked: number; picked: Region | null }) {
    const column = (i: number, name: string) => {
        const w = hotspots.windows[i];
        return w && <rect class={name} x={(w.from - start) / 1000} width={(w.to - w.from) / 1000} y="0" height={lines.length * ROW} />;
    };
    return (
        <svg viewBox={`0 0 ${seconds} ${lines.length * ROW}`} preserveAspectRatio="none" aria-hidden="true">
            {column(hotspots.windows.findIndex((w) => picked && sameRegion(regionOf(w), picked)), 'hot-picked')}
            {column(marked, 'hot-marked')}
            {lines.map((line, row) => (
                <g key={row} fill={line.kind ? barColor(line.kind, dark) : 'var(--dim)'}>
                    {hotspots.windows.map((w, i) => {
                        const height = line.scale > 0 ? Math.min(1, rateOf(w, line.weights[i]!) / line.scale) * (ROW - 4) : 0;
                        return height > 0 && <rect key={i} x={(w.from - start) / 1000 + 0.1} width={(w.to - w.from) / 1000 - 0.2} y={(row + 1) * ROW - 1 - height} height={height} opacity={isWhole(w) ? 1 : 0.45} />;
                    })}
                </g>
            ))}
        </svg>
    );
}

function Switch<T extends string>({ label, of, value, set }: { label: string; of: [T, string, string][]; value: T; set: (value: T) => void }) {
    return (
        <div class="switch" role="group" aria-label={label}>
            {of.map(([key, words, help]) => (
                <button key={key} type="button" title={help} aria-pressed={value === key} onClick={() => set(key)}>
                    {words}
                </button>
            ))}
        </div>
    );
}

// Keeps the last value while the next one is fetched.
function useHotspots(path: string, again: unknown): { hotspots: Hotspots | null; error: string } {
    const answer = useAnswer(path, again, decodeHotspots);
    const last = useRef<Hotspots | null>(null);
    if (answer.value) last.current = answer.value;
    return { hotspots: answer.value ?? last.current, error: answer.error };
}

export function HotspotsPanel({ seconds, scope, again, dark, region, setRegion, words, setWords }: Props) {
    const [by, setBy] = useState<By>('self');
    const [order, setOrder] = useState<Order>('most');
    const [max, setMax] = useState(FEW);
    const { hotspots, error } = useHotspots(hotspotsPath(seconds, scope, by, order, max), again);
    const [at, setAt] = useState<{ window: number; line: number } | null>(null);
    const plots = useRef<HTMLDivElement>(null);
    useEffect(() => setAt(null), [hotspots?.windows[0]?.from, by, order, max]); // the indices refer to the old list
    if (!hotspots) return error ? <p class="failed" role="alert">{error}</p> : null;
    const { windows } = hotspots;
    if (windows.length === 0) return null;

    const lines = linesOf(hotspots);
    const start = windows.at(-1)!.to - seconds * 1000;
    const pointed = (e: MouseEvent) => {
        const box = plots.current!.getBoundingClientRect();
        const ms = start + ((e.clientX - box.left) / box.width) * seconds * 1000;
        const window = windows.findIndex((w) => ms >= w.from && ms < w.to);
        return window < 0 ? null : { window, line: Math.max(0, Math.min(lines.length - 1, Math.floor((e.clientY - box.top) / ROW))) };
    };
    const pick = (window: number) => setRegion(regionOf(windows[window]!));
    const onKey = (e: KeyboardEvent) => {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const { window, line } = at ?? { window: windows.length - 1, line: 0 };
        const to = (w: number, l: number) => setAt({ window: Math.max(0, Math.min(windows.length - 1, w)), line: Math.max(0, Math.min(lines.length - 1, l)) });
        if (e.key === 'ArrowLeft') to(window - 1, line);
        else if (e.key === 'ArrowRight') to(window + 1, line);
        else if (e.key === 'ArrowUp') to(window, line - 1);
        else if (e.key === 'ArrowDown') to(window, line + 1);
        else if (e.key === 'Home') to(0, line);
        else if (e.key === 'End') to(windows.length - 1, line);
        else if (e.key === 'Enter' || e.key === ' ') pick(window);
        else return;
        e.preventDefault();
    };
    const clock = (ms: number): string => format.clock(ms + hotspots.offset);
    const say = (): string => {
        const w = at && windows[at.window];
        const line = at && lines[at.line];
        if (!w || !line) return 'Click a bar to show its window in the flame graph, or a name to search for the function there.';
        return `${clock(w.from)} to ${clock(w.to)}${isWhole(w) ? '' : ', incomplete'}: ${line.name} ${cpus(rateOf(w, line.weights[at.window] ?? 0))} of ${cpus(rateOf(w, w.weight))} CPUs`;
    };
    return (
        <section class="hot" aria-labelledby="hot-title">
            <header class="bar">
                <h2 id="hot-title">Hotspots over time</h2>
                <p class="dim">CPUs, by windows of {format.span((windows[0]!.to - windows[0]!.from) * 1e6)}</p>
                <div class="tools">
                    <Switch label="Time of a function" of={[['self', 'Self', 'without callees'], ['total', 'Total', 'with callees']]} value={by} set={setBy} />
                    <Switch label="First are" of={[['most', 'Most time', 'most time over all windows'], ['change', 'Most changed', 'largest difference between windows']]} value={order} set={setOrder} />
                    {(max !== FEW || hotspots.functions > FEW) && (
                        <button type="button" onClick={() => setMax(max === FEW ? MANY : FEW)}>
                            {max === FEW ? 'More' : 'Fewer'}
                        </button>
                    )}
                </div>
            </header>
            {error && <p class="failed" role="alert">{error}</p>}
            <div class="hot-rows">
                <div class="hot-names" data-testid="hot-names">
                    {lines.map((line, i) =>
                        line.kind ? (
                            <button
                                key={i}
                                type="button"
                                class="code"
                                title={`${line.name}\n${line.where}`}
                                aria-label={`${line.name}, ${cpus(line.rates.average)} CPUs, at most ${cpus(line.rates.most)}${line.rates.at < 0 ? '' : ` at ${clock(windows[line.rates.at]!.from)}`}`}
                                aria-pressed={words === exactly(line.name)}
                                onClick={() => setWords(words === exactly(line.name) ? '' : exactly(line.name))}
                            >
                                {line.name} <small aria-hidden="true">{format.baseName(line.where)}</small>
                            </button>
                        ) : (
                            <span key={i} class="dim" title={line.where}>
                                {line.name}
                            </span>
                        ),
                    )}
                </div>
                <div
                    ref={plots}
                    class="hot-plots"
                    style={{ height: `${lines.length * ROW}px` }}
                    tabIndex={0}
                    role="application"
                    aria-roledescription="bars over time"
                    aria-label="CPUs by function and window. Left and right move by a window, up and down by a function. Enter picks the window."
                    aria-describedby="hot-at"
                    data-testid="hot"
                    onKeyDown={onKey}
                    onBlur={() => setAt(null)}
                    onPointerMove={(e) => setAt(pointed(e))}
                    onPointerLeave={() => setAt(null)}
                    onClick={(e) => {
                        const to = pointed(e);
                        if (to) pick(to.window);
                    }}
                >
                    <Bars hotspots={hotspots} lines={lines} start={start} seconds={seconds} dark={dark} marked={at?.window ?? -1} picked={region} />
                </div>
                <div class="hot-figures" aria-hidden="true">
                    {lines.map((line, i) => (
                        <span key={i} class={line.kind ? '' : 'dim'} title={`On average ${cpus(line.rates.average)} CPUs, at most ${cpus(line.rates.most)}`}>
                            {cpus(line.rates.average)} <small>≤ {cpus(line.rates.most)}</small>
                        </span>
                    ))}
                </div>
                <div class="heat-times hot-times dim" aria-hidden="true">
                    {Array.from({ length: MARKS }, (_, i) => (
                        <span key={i}>{clock(start + (i * seconds * 1000) / MARKS)}</span>
                    ))}
                </div>
            </div>
            <div class="heat-words hot-words">
                <p id="hot-at" role="status" data-testid="hot-at">
                    {say()}
                </p>
            </div>
        </section>
    );
}
