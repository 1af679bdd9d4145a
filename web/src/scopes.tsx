// Selection of the scope: the whole node, a container or a process. One tab stop; arrow keys move within the list.

import { useMemo, useState } from 'preact/hooks';
import * as format from './format';
import { sameScope, type Profile, type Scope } from './profile';

const SHOWN = 60;

interface Entry {
    scope: Scope;
    name: string;
    note: string;
    title: string;
    weight: number;
}

function containersOf(profile: Profile): Entry[] {
    const known = new Map<string, Entry & { names: Set<string> }>();
    for (const p of profile.processes) {
        if (!p.container) continue;
        let e = known.get(p.container);
        if (!e) {
            e = { scope: { kind: 'container', id: p.container }, name: '', note: p.container.slice(0, 12), title: p.container, weight: 0, names: new Set() };
            known.set(p.container, e);
        }
        e.names.add(p.service || p.command);
        e.weight += p.weight;
    }
    return [...known.values()].map((e) => ({ ...e, name: [...e.names].slice(0, 2).join(', ') })).sort((a, b) => b.weight - a.weight);
}

function processesOf(profile: Profile): Entry[] {
    const known = new Map<number, Entry>();
    for (const p of profile.processes) {
        const e = known.get(p.pid);
        if (e) e.weight += p.weight; // the same process, before and after it executed another program
        else
            known.set(p.pid, {
                scope: { kind: 'process', pid: p.pid },
                name: p.command,
                note: String(p.pid),
                title: [p.executable, p.service && `service ${p.service}`, p.unit].filter(Boolean).join('\n'),
                weight: p.weight,
            });
    }
    return [...known.values()].sort((a, b) => b.weight - a.weight);
}

export function Scopes({ profile, scope, setScope }: { profile: Profile; scope: Scope; setScope: (s: Scope) => void }) {
    const [filter, setFilter] = useState('');
    const containers = useMemo(() => containersOf(profile), [profile]);
    const processes = useMemo(() => processesOf(profile), [profile]);
    const low = filter.trim().toLowerCase();
    const fits = (e: Entry) => !low || `${e.name} ${e.note} ${e.title}`.toLowerCase().includes(low);
    const node: Entry = { scope: { kind: 'node' }, name: 'Whole node', note: '', title: '', weight: profile.weight };
    // The selected scope stays in the list even without samples.
    const chosen = [node, ...containers, ...processes].some((e) => sameScope(e.scope, scope));
    const gone: Entry[] = chosen ? [] : [scopeWithoutSamples(scope)];
    const groups: [string, Entry[], number][] = [
        ['', [node, ...gone], 0],
        ['Containers', ...cut(containers.filter(fits), scope)],
        ['Processes', ...cut(processes.filter(fits), scope)],
    ];
    const whole = Math.max(profile.weight, 1);
    const move = (e: KeyboardEvent) => {
        const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 };
        const step = steps[e.key];
        if (step === undefined) return;
        e.preventDefault();
        const all = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=radio]')];
        const at = all.indexOf(document.activeElement as HTMLElement);
        const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
        next?.focus();
        next?.click();
    };
    return (
        <nav class="scopes" aria-label="Scope selection">
            <input type="search" placeholder="Filter processes" aria-label="Filter processes and containers" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
            <div class="scope-list" role="radiogroup" aria-label="Scope" onKeyDown={move} data-testid="scopes">
                {groups.map(
                    ([title, entries, more]) =>
                        (entries.length > 0 || (title === 'Processes' && low)) && (
                            <div key={title} role="presentation">
                                {title && <h3>{title}</h3>}
                                {entries.map((e) => {
                                    const on = sameScope(e.scope, scope);
                                    return (
                                        <div
                                            key={JSON.stringify(e.scope)}
                                            role="radio"
                                            tabIndex={on ? 0 : -1}
                                            aria-checked={on}
                                            class="scope"
                                            title={e.title}
                                            onClick={() => setScope(e.scope)}
                                            onKeyDown={(k) => (k.key === ' ' || k.key === 'Enter') && (k.preventDefault(), setScope(e.scope))}
                                        >
                                            <span class="scope-name">{e.name}</span>
                                            <span class="scope-note">{e.note}</span>
                                            <span class="scope-share">{format.percent(e.weight / whole)}</span>
                                            <i class="scope-bar" aria-hidden="true" style={{ width: `${(e.weight / whole) * 100}%` }} />
                                        </div>
                                    );
                                })}
                                {entries.length === 0 && <p class="more">No match.</p>}
                                {more > 0 && <p class="more">{format.integer(more)} more; filter to find them.</p>}
                            </div>
                        ),
                )}
            </div>
        </nav>
    );
}

function scopeWithoutSamples(scope: Scope): Entry {
    if (scope.kind === 'process') return { scope, name: 'no samples', note: String(scope.pid), title: '', weight: 0 };
    return { scope, name: 'no samples', note: scope.kind === 'container' ? scope.id.slice(0, 12) : '', title: '', weight: 0 };
}

function cut(entries: Entry[], scope: Scope): [Entry[], number] {
    const shown = entries.slice(0, SHOWN);
    const chosen = entries.slice(SHOWN).find((e) => sameScope(e.scope, scope));
    if (chosen) shown.push(chosen);
    return [shown, entries.length - shown.length];
}
