#!/usr/bin/env perl
# Refuses the glossary's "instead of" phrases in whatever people read: documents, log messages, help texts, alerts, the API
# description and comments. Part of `make lint`.
#
# The glossary is the table in ARCHITECTURE.md. Of its last column the phrases in backticks are refused, as whole words and
# in any letter case; `mend*` stands for every word with that beginning. What stands there without backticks is ambiguous
# English, which only a reader can judge.
#
# Documents are the Markdown files, without code in backticks and fences (diagrams are read). Log messages are the string
# literals in the macros of `tracing` and in `limited!`. Help texts are the string literals of what derives a trait of clap, and
# the texts of `help:`, `ABOUT` and `..._HELP`; their documentation comments are read like all comments. Texts of the API
# description are the string literals below ingest/src/openapi, except in tests. Alerts are the rules below ops/prometheus.
# Comments are those of Rust, of scripts, and of migrations that may still change: one that has landed may not.
#
# Perl, because Debian has it everywhere, and because awk knows neither lookahead nor literals that span lines.

use strict;
use warnings;

my $GLOSSARY = 'ARCHITECTURE.md';
my $LOG_MACRO = qr/\b(?:error|warn|info|debug|trace|limited)!\s*[(\[{]/;
my $CLAP_DERIVE = qr/\bderive\([^)]*\b(?:Parser|Args|Subcommand|ValueEnum)\b/;
my $API_DESCRIPTION = qr{^ingest/src/openapi/(?!.*\btests\b)};
my $LAST_LANDED_MIGRATION = 13;
my $HELP_TEXT = qr/\b(?:help\s*:|ABOUT\s*:[^=]*=|\w*_HELP\s*:[^=]*=)\s*$/;

my %read = map { $_ => 0 } 'documents', 'log messages', 'help texts', 'alerts', 'API texts', 'comments', 'scripts';
my $faults = 0;
my ($refused, @use_instead) = glossary(content($GLOSSARY));

for my $file (files()) {
    my $text = content($file);
    if ($file =~ /\.md$/) {
        $read{documents}++;
        check($file, $text, 0, prose($file eq $GLOSSARY ? without_glossary($text) : $text));
    }
    elsif ($file =~ /\.yml$/) {
        $read{alerts}++;
        check($file, $text, 0, spoken($text));
    }
    elsif ($file =~ /\.rs$/) { check_source($file, $text) }
    else {
        $read{scripts}++;
        check($file, $text, 0, spoken(comments_of_lines($file, $text)));
    }
}
for my $kind (sort keys %read) {
    die "language.pl: no $kind found; has their place changed?\n" if $read{$kind} == 0;
}
exit($faults > 0);

# The tracked files, and those that are about to be.
sub files {
    my @listed = split /\0/, `git ls-files -z --cached --others --exclude-standard -- '*.md' '*.rs' '*.sql' '*.sh' '*.py' '*.pl' 'ops/prometheus/rules/*.yml'`;
    return grep { -f && !/language\.pl$/ && !(/^sql\/V(\d+)/ && $1 <= $LAST_LANDED_MIGRATION) } @listed;
}

sub content {
    my ($file) = @_;
    open my $handle, '<', $file or die "language.pl: $file: $!\n";
    local $/ = undef;
    return scalar <$handle>;
}

# A pattern with a group for each refused phrase, and what to use instead of each.
sub glossary {
    my ($text) = @_;
    my (@patterns, @instead);
    my ($section) = $text =~ /^## Glossary\n(.*?)(?=^## |\z)/ms;
    for my $row (split /\n/, $section // '') {
        my (undef, $use, undef, $column) = split /\s*(?<!\\)\|\s*/, $row;
        for my $phrase (($column // '') =~ /`([^`]+)`/g) {
            my $pattern = join '\s+', map { quotemeta } split ' ', $phrase;
            $pattern =~ s/\\\*/\\w*/g;
            push @patterns, "($pattern)";
            push @instead, $use;
        }
    }
    die "language.pl: $GLOSSARY has no glossary with refused phrases\n" unless @patterns;
    my $any = join '|', @patterns;
    return (qr/(?<![\w-])(?:$any)(?![\w-])/i, @instead);
}

# Blanks what a pattern matches, so that lines keep their numbers.
sub blanked {
    my ($matched) = @_;
    $matched =~ s/[^\n]/ /g;
    return $matched;
}

sub without_glossary {
    my ($text) = @_;
    $text =~ s/^(## Glossary\n.*?)(?=^## |\z)/blanked($1)/mse;
    return $text;
}

# A document without code and the targets of links.
sub prose {
    my ($text) = @_;
    $text =~ s/^[ ]*```(\w*)[^\n]*\n.*?^[ ]*```[ ]*$/$1 eq 'mermaid' ? $& =~ tr{`}{ }r : blanked($&)/gmse;
    $text =~ s/(`[^`]*`)/blanked($1)/ge;
    $text =~ s/(\]\([^)]*\))/blanked($1)/ge;
    return $text;
}

# Names each refused phrase in a part of a file that begins at an offset.
sub check {
    my ($file, $whole, $offset, $part) = @_;
    while ($part =~ /$refused/g) {
        my ($found, $at) = ($&, $offset + $-[0]);
        my ($group) = grep { defined $-[$_] } 1 .. $#-;
        my $line = 1 + (substr($whole, 0, $at) =~ tr/\n//);
        $found =~ s/\s+/ /g;
        print "$file:$line: \"$found\": use \"$use_instead[$group - 1]\" (glossary of $GLOSSARY)\n";
        $faults++;
    }
}

# The comments, log messages, help texts and API texts of a source.
sub check_source {
    my ($file, $text) = @_;
    # The end of the code before the current place, without comments.
    my $code = '';
    # The nesting depth outside of the macro, and of the body of the clap item, that the current place is in.
    my ($depth, $macro, $body, $is_item) = (0, undef, undef, 0);
    while ($text =~ /\G(?:(\/\/[^\n]*(?:\n\s*\/\/[^\n]*)*|\/\*.*?\*\/)|(b?r(#*)".*?"\3|b?"(?:\\.|[^"\\])*")|('(?:\\.[^']*|[^'\\])')|([^"'\/(){}\[\];rb]+|.))/gs) {
        my ($comment, $literal, $run, $at) = ($1, $2, $5, $-[0]);
        if (defined $comment) {
            $read{comments}++;
            $comment =~ s{(//[/!]?)}{blanked($1)}ge;
            check($file, $text, $at, spoken($comment));
        }
        elsif (defined $literal) {
            my $is_help = $is_item || $code =~ $HELP_TEXT;
            my $kind = $is_help ? 'help texts' : defined $macro ? 'log messages' : $file =~ $API_DESCRIPTION ? 'API texts' : undef;
            if (defined $kind) {
                $read{$kind}++;
                check($file, $text, $at, spoken($literal));
            }
            $code .= '""';
        }
        elsif (defined $run) {
            $code = substr($code . $run, -400);
            if ($run =~ /^[({\[]$/) {
                $macro = $depth if !defined $macro && $code =~ /$LOG_MACRO$/;
                $body = $depth if $is_item && !defined $body && $run eq '{';
                $depth++;
            }
            elsif ($run =~ /^[)}\]]$/) {
                $depth--;
                undef $macro if defined $macro && $depth == $macro;
                ($is_item, $body) = (0, undef) if defined $body && $depth == $body;
                $is_item = 1 if $run eq ']' && $code =~ /#\[$CLAP_DERIVE[^\]]*\]$/;
            }
        }
    }
}

# A script without its code, and SQL without the markers of its comments: SQL describes tables in literals as well.
sub comments_of_lines {
    my ($file, $text) = @_;
    return $text =~ s/--/  /gr if $file =~ /\.sql$/;
    return $text =~ s/^(.*?)(?:(?<!\S)#(.*))?$/blanked($1) . (defined $2 ? " $2" : '')/gmer;
}

# A literal or comment without code in backticks, and with the same length.
sub spoken {
    my ($text) = @_;
    $text =~ s/(`[^`]*`)/blanked($1)/ge;
    $text =~ s/\\n/  /g;
    $text =~ s/\\(?=\n)/ /g;
    return $text;
}
