// The flame graph with search, legend, details of the frame under the pointer, and the same data as a table. The graph is a canvas; an
// overlay of DOM elements around the selected frame serves keyboards and screen readers.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { changeOfNode, colorsOfNodes } from './change';
import { ChangeDetails, ChangeTable, ComparisonLegend, Recordings, sayChange } from './comparison';
import { FlameCanvas, ROW } from './flame-canvas';
import * as format from './format';
import { canvasColors, colorsOf, frameColor, KIND_NAMES } from './palette';
import type { Frame, Kind, Profile, Scope, Unit } from './profile';
import { buildTree, byFunction, nodeAt, pathOf, rowCount, search, type Matches, type Side, type Tree } from './tree';

const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const TABLE_ROWS = 200;
const SIBLINGS_READ = 24; // limit of the overlay: a screen reader needs the neighbourhood only

interface Props {
    profile: Profile;
    scope: Scope;
    dark: boolean;
    empty: preact.ComponentChildren; // shown when there is nothing to draw
    words: string; // search expression
    setWords: (words: string) => void;
}

type Compared = Profile['compared'];

function describe(tree: Tree, node: number, compared: Compared, side: Side, unit: Unit): string {
    const f = tree.frames[tree.frame[node]!]!;
    if (compared) return `${f.name}, ${sayChange(changeOfNode(tree, node, side, compared))}`;
    const self = tree.self[node]! > 0 ? `, self ${format.amount(tree.self[node]!, unit)}` : '';
    return `${f.name}, ${format.percent(tree.total[node]! / Math.max(tree.total[0]!, 1))}, ${format.amount(tree.total[node]!, unit)}${self}`;
}

function neighbours(tree: Tree, node: number): number[] {
    const found: number[] = [];
    for (let up = tree.parent[node]!; up >= 0; up = tree.parent[up]!) found.push(up);
    found.reverse();
    const siblings = siblingsOf(tree, node);
    const at = siblings.indexOf(node);
    found.push(...siblings.slice(Math.max(0, at - SIBLINGS_READ), at + SIBLINGS_READ));
    let c = tree.first[node]!;
    for (let i = 0; c >= 0 && i < SIBLINGS_READ; c = tree.next[c]!, i++) found.push(c);
    return found;
}

function siblingsOf(tree: Tree, node: number): number[] {
    const parent = tree.parent[node]!;
    if (parent < 0) return [node];
    const all: number[] = [];
    for (let c = tree.first[parent]!; c >= 0; c = tree.next[c]!) all.push(c);
    return all;
}

function largestChild(tree: Tree, node: number): number {
    let best = -1;
    for (let c = tree.first[node]!; c >= 0; c = tree.next[c]!) if (best < 0 || tree.total[c]! > tree.total[best]!) best = c;
    return best;
}

// The next frame of the same row, under any caller, so that the arrow keys never get stuck.
function besides(tree: Tree, node: number, step: number): number {
    const row = tree.depth[node]!;
    let low = tree.rows[row]!;
    while (tree.order[low] !== node) low++;
    const at = low + step;
    return at >= tree.rows[row]! && at < tree.rows[row + 1]! ? tree.order[at]! : -1;
}

function useSearch(tree: Tree, words: string, root: number): { matches: Matches | null; error: string } {
    return useMemo(() => {
        try {
            return { matches: search(tree, words.trim(), root), error: '' };
        } catch {
            return { matches: null, error: 'not a regular expression' };
        }
    }, [tree, words, root]);
}

function Legend({ present, dark }: { present: Set<Kind>; dark: boolean }) {
    return (
        <ul class="legend" aria-label="Colours">
            {KIND_NAMES.filter(([kind]) => present.has(kind)).map(([kind, name, help]) => (
                <li key={kind} title={help}>
                    <i class={kind === 'truncated' ? 'swatch hatched' : 'swatch'} style={kind === 'truncated' ? {} : { background: frameColor(kind, '', dark) }} />
                    {name}
                </li>
            ))}
        </ul>
    );
}

function Details({ tree, node, root, compared, side, unit }: { tree: Tree; node: number; root: number; compared: Compared; side: Side; unit: Unit }) {
    const f = tree.frames[tree.frame[node]!]!;
    const all = Math.max(tree.total[0]!, 1);
    const kind = f.kind === 'group' ? (node === 0 ? 'scope' : 'process') : KIND_NAMES.find(([k]) => k === f.kind)![1];
    return (
        <div class="details" data-testid="details">
            <p class="name">
                <b>{f.name}</b> <span class="kind">{kind}</span>
            </p>
            <p class="place">{place(f) || '\u00a0'}</p>
            {compared ? (
                <ChangeDetails change={changeOfNode(tree, node, side, compared)} />
            ) : (
                <dl>
                    <div>
                        <dt>total</dt>
                        <dd>
                            {format.amount(tree.total[node]!, unit)} <small>{format.percent(tree.total[node]! / all)}</small>
                        </dd>
                    </div>
                    <div>
                        <dt>self</dt>
                        <dd>
                            {format.amount(tree.self[node]!, unit)} <small>{format.percent(tree.self[node]! / all)}</small>
                        </dd>
                    </div>
                    {root !== 0 && (
                        <div>
                            <dt>of view</dt>
                            <dd>{format.percent(Math.min(1, tree.total[node]! / Math.max(tree.total[root]!, 1)))}</dd>
                        </div>
                    )}
                </dl>
            )}
        </div>
    );
}

function place(f: Frame): string {
    const source = f.file ? (f.line ? `${f.file}:${f.line}` : f.file) : '';
    return [f.mapping, f.address, source].filter(Boolean).join('  ·  ');
}

type SortKey = 'self' | 'total' | 'name';

function FunctionTable({ tree, root, dark, matches, unit }: { tree: Tree; root: number; dark: boolean; matches: Matches | null; unit: Unit }) {
    const [sort, setSort] = useState<SortKey>('self');
    const rows = useMemo(() => {
        const all = byFunction(tree, root).filter((r) => !matches || matches.frames[r.frame]);
        if (sort === 'total') all.sort((a, b) => b.total - a.total);
        if (sort === 'name') all.sort((a, b) => (tree.frames[a.frame]!.name < tree.frames[b.frame]!.name ? -1 : 1));
        return all;
    }, [tree, root, matches, sort]);
    const all = Math.max(tree.total[root]!, 1);
    const head = (key: SortKey, label: string, numeric: boolean) => (
        <th scope="col" class={numeric ? 'number' : ''} aria-sort={sort === key ? (key === 'name' ? 'ascending' : 'descending') : 'none'}>
            <button type="button" class="sort" onClick={() => setSort(key)}>
                {label}
                <span aria-hidden="true">{sort === key ? (key === 'name' ? ' ↑' : ' ↓') : ''}</span>
            </button>
        </th>
    );
    return (
        <div class="table-scroll" tabIndex={0} role="region" aria-label="Functions">
            <table class="functions">
                <thead>
                    <tr>
                        {head('self', 'Self', true)}
                        {head('total', 'Total', true)}
                        {head('name', 'Function', false)}
                        <th scope="col">Where</th>
                    </tr>
                </thead>
                <tbody>
                    {rows.slice(0, TABLE_ROWS).map((r) => {
                        const f = tree.frames[r.frame]!;
                        return (
                            <tr key={r.frame}>
                                <td class="number">
                                    {format.amount(r.self, unit)} <small>{format.percent(r.self / all)}</small>
                                </td>
                                <td class="number">
                                    {format.amount(r.total, unit)} <small>{format.percent(r.total / all)}</small>
                                </td>
                                <td class="code marked">
                                    <i class={f.kind === 'truncated' ? 'swatch hatched' : 'swatch'} style={f.kind === 'truncated' ? {} : { background: frameColor(f.kind, f.mapping, dark) }} />
                                    {f.name}
                                </td>
                                <td class="code dim" title={f.mapping}>
                                    {format.baseName(f.mapping)}
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
            {rows.length > TABLE_ROWS && <p class="more">{format.integer(rows.length - TABLE_ROWS)} more functions; search narrows them down.</p>}
            {rows.length === 0 && <p class="more">No function matches.</p>}
        </div>
    );
}

// Zoom and selection survive a new profile: they are kept as paths of names and looked up in every new tree.
function useKept(tree: Tree): [number, (node: number) => void] {
    const [path, setPath] = useState<string[]>([]);
    const node = useMemo(() => nodeAt(tree, path), [tree, path]);
    const set = useCallback((n: number) => setPath(pathOf(tree, n)), [tree]);
    return [node, set];
}

export function Flame({ profile, scope, dark, empty, words, setWords }: Props) {
    const { compared } = profile;
    const [side, setSide] = useState<Side>('after');
    const tree = useMemo(() => buildTree(profile, scope, side), [profile, scope, side]);
    const [view, setView] = useState<'graph' | 'table'>('graph');
    const [root, setRoot] = useKept(tree);
    const { matches, error } = useSearch(tree, words, root);
    const searchBox = useRef<HTMLInputElement>(null);
    const present = useMemo(() => new Set(Array.from(tree.frame, (f) => tree.frames[f]!.kind)), [tree]);

    useEffect(() => {
        const slash = (e: KeyboardEvent) => {
            const at = e.target as HTMLElement;
            if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || at.closest('input, select, textarea')) return;
            e.preventDefault();
            searchBox.current?.focus();
        };
        document.addEventListener('keydown', slash);
        return () => document.removeEventListener('keydown', slash);
    }, []);

    const nothing = tree.total[0]! <= 0;
    return (
        <section class="flame" aria-labelledby="flame-title">
            <header class="bar">
                <h2 id="flame-title">{compared ? 'Comparison' : { cpu: 'CPU time', off_cpu: 'Off-CPU time', wall: 'CPU and off-CPU time', gpu: 'GPU time', events: profile.event }[profile.time]}</h2>
                {compared ? (
                    <Recordings compared={compared} />
                ) : (
                    <p class="sum" data-testid="cpu-sum">
                        <b>{format.amount(tree.total[0]!, profile.unit)}</b>
                        {profile.duration > 0 && profile.time === 'events' && ` in ${format.span(profile.duration)}`}
                        {profile.duration > 0 && profile.time !== 'events' && (
                            <>
                                {' '}in {format.span(profile.duration)} <span class="dim">= {(tree.total[0]! / profile.duration).toFixed(2)} {{ cpu: 'CPUs', off_cpu: 'threads', wall: 'threads', gpu: 'at a time' }[profile.time]}</span>
                            </>
                        )}
                    </p>
                )}
                {compared ? <ComparisonLegend dark={dark} /> : <Legend present={present} dark={dark} />}
                <div class="tools">
                    {compared && (
                        <div class="switch" role="group" aria-label="Widths are those">
                            <button type="button" aria-pressed={side === 'before'} onClick={() => setSide('before')}>
                                Before
                            </button>
                            <button type="button" aria-pressed={side === 'after'} onClick={() => setSide('after')}>
                                After
                            </button>
                        </div>
                    )}
                    {root !== 0 && (
                        <button type="button" onClick={() => setRoot(0)}>
                            Reset zoom <kbd>Esc</kbd>
                        </button>
                    )}
                    <div class="search">
                        <input
                            ref={searchBox}
                            type="search"
                            placeholder="Search frames"
                            aria-label="Search frames by name, file or library; /…/ is a regular expression, &quot;…&quot; a whole name"
                            title="A part of a name, file or library; /…/ is a regular expression, &quot;…&quot; a whole name"
                            value={words}
                            onInput={(e) => setWords(e.currentTarget.value)}
                            onKeyDown={(e) => e.key === 'Escape' && (setWords(''), e.currentTarget.blur())}
                            aria-invalid={error !== ''}
                        />
                        {!words && <kbd aria-hidden="true">/</kbd>}
                        <output role="status" data-testid="matched">
                            {error || (matches && `${format.percent(matches.weight / Math.max(tree.total[root]!, 1))} in ${format.count(matches.nodes, 'frame')}`)}
                        </output>
                    </div>
                    <div class="switch" role="group" aria-label="Show as">
                        <button type="button" aria-pressed={view === 'graph'} onClick={() => setView('graph')}>
                            Graph
                        </button>
                        <button type="button" aria-pressed={view === 'table'} onClick={() => setView('table')}>
                            Table
                        </button>
                    </div>
                </div>
            </header>
            {nothing ? (
                <div class="empty">{empty}</div>
            ) : view === 'graph' ? (
                <Graph tree={tree} root={root} setRoot={setRoot} dark={dark} matches={matches} compared={compared} side={side} unit={profile.unit} />
            ) : compared ? (
                <ChangeTable tree={tree} root={root} side={side} compared={compared} dark={dark} matches={matches} />
            ) : (
                <FunctionTable tree={tree} root={root} dark={dark} matches={matches} unit={profile.unit} />
            )}
        </section>
    );
}

interface GraphProps {
    tree: Tree;
    root: number;
    setRoot: (node: number) => void;
    dark: boolean;
    matches: Matches | null;
    compared: Compared;
    side: Side;
    unit: Unit;
}

function Graph({ tree, root, setRoot, dark, matches, compared, side, unit }: GraphProps) {
    const [chosen, setChosen] = useKept(tree);
    const [hovered, setHovered] = useState(-1);
    const scroller = useRef<HTMLDivElement>(null);
    const canvas = useRef<HTMLCanvasElement>(null);
    const overlay = useRef<HTMLDivElement>(null);
    const flame = useRef<FlameCanvas | null>(null);
    const shownRoot = useRef<string>('');
    const height = rowCount(tree) * ROW;

    // Moves the overlay with every animation frame, without a render.
    const follow = useCallback(() => {
        if (!overlay.current || !flame.current) return;
        for (const item of overlay.current.children as HTMLCollectionOf<HTMLElement>) {
            const box = flame.current.box(Number(item.dataset.node));
            item.style.transform = `translate(${box.left}px, ${box.top}px)`;
            item.style.width = `${box.width}px`;
            item.style.visibility = box.width > 0 ? 'visible' : 'hidden';
        }
    }, []);

    useLayoutEffect(() => {
        flame.current = new FlameCanvas(canvas.current!, follow);
        const fit = () => {
            const box = scroller.current!;
            flame.current!.resize(box.clientWidth, box.clientHeight);
        };
        const watcher = new ResizeObserver(fit);
        watcher.observe(scroller.current!);
        fit();
        return () => {
            watcher.disconnect();
            flame.current!.stop();
        };
    }, []);

    useLayoutEffect(() => {
        setHovered(-1);
        const nodeColors = compared && colorsOfNodes(tree, side, compared, dark);
        flame.current!.show({ tree, colors: colorsOf(tree.frames, dark), nodeColors, canvasColors: canvasColors(dark), font: MONO, matches }, root);
        shownRoot.current = pathOf(tree, root).join('\n');
    }, [tree, dark]);

    useLayoutEffect(() => {
        const path = pathOf(tree, root).join('\n');
        if (path !== shownRoot.current) flame.current!.zoomTo(root, true);
        shownRoot.current = path;
    }, [root]);

    useLayoutEffect(() => flame.current!.highlight(matches), [matches]);
    useLayoutEffect(follow);

    const choose = (node: number) => {
        if (node < 0) return;
        setChosen(node);
        // Bring the row into view.
        const box = scroller.current!;
        const top = tree.depth[node]! * ROW;
        if (top < box.scrollTop) box.scrollTop = top;
        else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
        // Outside the zoom: widens it until the frame is inside.
        let up = root;
        while (up > 0 && !(tree.start[node]! >= tree.start[up]! && tree.start[node]! + tree.total[node]! <= tree.start[up]! + tree.total[up]!)) up = tree.parent[up]!;
        const isAbove = tree.depth[node]! < tree.depth[root]!;
        if (up !== root && !isAbove) setRoot(up);
    };

    const zoom = (node: number) => {
        if (node < 0) return;
        setChosen(node);
        setRoot(node);
    };

    const at = (e: MouseEvent): number => {
        const box = scroller.current!.getBoundingClientRect();
        return flame.current!.hit(e.clientX - box.left, e.clientY - box.top + scroller.current!.scrollTop);
    };

    const keys: Record<string, () => void> = {
        ArrowDown: () => choose(largestChild(tree, chosen)),
        ArrowUp: () => choose(tree.parent[chosen]!),
        ArrowLeft: () => choose(besides(tree, chosen, -1)),
        ArrowRight: () => choose(besides(tree, chosen, 1)),
        Home: () => choose(siblingsOf(tree, chosen)[0]!),
        End: () => choose(siblingsOf(tree, chosen).at(-1)!),
        Enter: () => zoom(chosen),
        ' ': () => zoom(chosen),
        Backspace: () => zoom(Math.max(0, tree.parent[root]!)),
        Escape: () => setRoot(0),
    };

    const items = neighbours(tree, chosen);
    const shown = hovered >= 0 && hovered < tree.count ? hovered : chosen;
    return (
        <>
            <div
                class="scroller"
                ref={scroller}
                style={{ height: `${height}px` }}
                tabIndex={0}
                role="tree"
                aria-label="Flame graph. Arrow keys move, Enter zooms, Escape shows all; the table says the same."
                aria-activedescendant={`flame-${chosen}`}
                data-testid="flame"
                onScroll={(e) => flame.current!.scroll(e.currentTarget.scrollTop)}
                onKeyDown={(e) => {
                    const act = keys[e.key];
                    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
                    e.preventDefault();
                    setHovered(-1);
                    act();
                }}
                onMouseMove={(e) => setHovered(at(e))}
                onMouseLeave={() => setHovered(-1)}
                onClick={(e) => zoom(at(e))}
            >
                <div class="extent" style={{ height: `${height}px` }} role="presentation">
                    <canvas ref={canvas} aria-hidden="true" />
                    <div class="overlay" ref={overlay} role="presentation">
                        {items.map((node) => (
                            <div
                                key={node}
                                id={`flame-${node}`}
                                data-node={node}
                                class={node === chosen ? 'node chosen' : 'node'}
                                role="treeitem"
                                aria-level={tree.depth[node]! + 1}
                                aria-selected={node === chosen}
                                aria-label={describe(tree, node, compared, side, unit)}
                            />
                        ))}
                    </div>
                    {hovered >= 0 && hovered < tree.count && <Hover flame={flame.current!} node={hovered} />}
                </div>
            </div>
            <Details tree={tree} node={shown} root={root} compared={compared} side={side} unit={unit} />
        </>
    );
}

function Hover({ flame, node }: { flame: FlameCanvas; node: number }) {
    const box = flame.box(node);
    return <div class="hover" aria-hidden="true" style={{ transform: `translate(${box.left}px, ${box.top}px)`, width: `${box.width}px` }} />;
}
