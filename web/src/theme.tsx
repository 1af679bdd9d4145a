// Light or dark theme: the system's unless the user chooses. The choice is kept in local storage where available.

import { useEffect, useState } from 'preact/hooks';

export type Choice = 'system' | 'light' | 'dark';
const CHOICES: Choice[] = ['system', 'light', 'dark'];
const system = matchMedia('(prefers-color-scheme: dark)');

function stored(): Choice {
    try {
        const value = localStorage.getItem('sonde.theme');
        return CHOICES.includes(value as Choice) ? (value as Choice) : 'system';
    } catch {
        return 'system';
    }
}

function store(choice: Choice): void {
    try {
        localStorage.setItem('sonde.theme', choice);
    } catch {
        // A file opened from disk may have no storage: the choice is lost when the page closes.
    }
}

export function useTheme(): { choice: Choice; dark: boolean; next: () => void } {
    const [choice, setChoice] = useState(stored);
    const [systemDark, setSystemDark] = useState(system.matches);
    useEffect(() => {
        const changed = () => setSystemDark(system.matches);
        system.addEventListener('change', changed);
        return () => system.removeEventListener('change', changed);
    }, []);
    useEffect(() => {
        if (choice === 'system') delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = choice;
        store(choice);
    }, [choice]);
    return {
        choice,
        dark: choice === 'system' ? systemDark : choice === 'dark',
        next: () => setChoice(CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length]!),
    };
}

const ICONS: Record<Choice, string> = {
    system: 'M8 1.5a6.5 6.5 0 1 0 0 13zM8 1.5a6.5 6.5 0 0 1 0 13',
    light: 'M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9L13 13M3 13l1.1-1.1M11.9 4.1L13 3',
    dark: 'M13.5 9.6A6 6 0 0 1 6.4 2.5A6 6 0 1 0 13.5 9.6z',
};

export function ThemeButton({ choice, next }: { choice: Choice; next: () => void }) {
    return (
        <button type="button" class="icon" onClick={next} aria-label={`Theme: ${choice}. Change`} title={`Theme: ${choice}`}>
            <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
                <path d={ICONS[choice]} fill={choice === 'system' ? 'none' : choice === 'dark' ? 'currentColor' : 'none'} />
                {choice === 'system' && <path d="M8 1.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />}
            </svg>
        </button>
    );
}
